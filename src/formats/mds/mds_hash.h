/// \file
/// The digests that an MDS index may name, by their names in Python's hashlib and xxhash.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// Whether the name is md5, sha1, sha224 to sha512, sha3_224 to sha3_512, blake2b, blake2s, xxh32,
/// xxh64, xxh3_64, xxh128 or xxh3_128.
bool is_mds_hash(std::string_view algorithm) noexcept;

/// Returns lower-case hexadecimal, like hexdigest(). `unsupported` for other names, and if
/// libcrypto does not provide the algorithm, for example under a policy that forbids MD5.
Result<std::string> mds_digest(std::string_view algorithm, std::span<const std::byte> bytes);

}  // namespace stoker
