/// \file
/// The codecs that decompress() delegates: only whole MDS shards use them, and their libraries are
/// optional. Without its library a codec is `unsupported`, with the name of the library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "formats/decompress.h"
#include "stoker/status.h"

namespace stoker::internal {

/// `corrupt` if `output_bytes` from `input_bytes` exceed the limits.
Status check_output(const DecompressLimits& limits, std::uint64_t input_bytes,
                    std::uint64_t output_bytes);

Result<std::vector<std::byte>> decompress_brotli(std::span<const std::byte> input,
                                                 const DecompressLimits& limits);
/// Reads a sequence of streams, as Python's bz2 does.
Result<std::vector<std::byte>> decompress_bzip2(std::span<const std::byte> input,
                                                const DecompressLimits& limits);
/// One block without frames; the size it claims is checked against the limits before allocation.
Result<std::vector<std::byte>> decompress_snappy(std::span<const std::byte> input,
                                                 const DecompressLimits& limits);

}  // namespace stoker::internal
