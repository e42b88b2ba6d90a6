#pragma once

#include <cstdint>
#include <span>

#include "base/checksum.h"

namespace stoker {

/// The fingerprint that a cursor over rows of tokens stores: a hash of the dataset's fingerprint
/// and of `cut`, which is {window, stride, extra}, or {length, pad} for packs ({length} in cursors
/// of 0.1). `pad` is modulo 2^64.
Digest128 token_fingerprint(const Digest128& dataset, std::span<const std::uint64_t> cut);

}  // namespace stoker
