/// \file
/// What decompress() hands on: codecs that only whole MDS shards are compressed with, of libraries
/// that a build may lack. Each is `unsupported` then, with the name of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/decompress.h"
#include "stoker/status.h"

namespace stoker::internal {

/// `corrupt` if `output_bytes` from `input_bytes` are more than the limits allow.
Status check_output(const DecompressLimits& limits, std::uint64_t input_bytes,
                    std::uint64_t output_bytes);

Result<std::vector<std::byte>> decompress_brotli(std::span<const std::byte> input,
                                                 const DecompressLimits& limits);
/// Streams one after the other, as Python's bz2 writes and reads them.
Result<std::vector<std::byte>> decompress_bzip2(std::span<const std::byte> input,
                                                const DecompressLimits& limits);
/// One block without frames; its size is held against the limits before memory is taken.
Result<std::vector<std::byte>> decompress_snappy(std::span<const std::byte> input,
                                                 const DecompressLimits& limits);

}  // namespace stoker::internal
