#pragma once

#include <cstdint>
#include <span>

#include "base/checksum.h"

namespace stoker {

/// What a cursor over rows of tokens has for a fingerprint: that of the dataset they are cut from,
/// and how: {window, stride, extra}, or {length, pad} of packs; cursors of 0.1 have {length} alone.
/// `pad` is modulo 2^64.
Digest128 token_fingerprint(const Digest128& dataset, std::span<const std::uint64_t> cut);

}  // namespace stoker
