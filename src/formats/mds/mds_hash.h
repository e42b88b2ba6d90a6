/// \file
/// The digests an MDS index may name, by the names Python's hashlib and xxhash give them.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// md5, sha1, sha224 to sha512, sha3_224 to sha3_512, blake2b, blake2s, xxh32, xxh64, xxh3_64,
/// xxh128, xxh3_128.
bool is_mds_hash(std::string_view algorithm) noexcept;

/// Lower-case hexadecimal, as hexdigest() prints it. `unsupported` for other names, and where
/// libcrypto does not offer the algorithm, as under a policy that forbids MD5.
Result<std::string> mds_digest(std::string_view algorithm, std::span<const std::byte> bytes);

}  // namespace stoker
