/// \file
/// Decompresses LitData chunks to the plain form that LitdataReader reads. LitData uses zstd in
/// three ways: on the file as a whole; on each sample, with offsets of the compressed samples; and
/// on batches of samples, in a separate file format:
///
///     "LDFZ01\0\0" | u16 version 1 | u16 flags 0 | u32 N | u32 samples in a frame | u32 F |
///     u32 off[N+1], of the samples, uncompressed, from 0 |
///     F x (u32 first sample | u32 samples | u64 offset | u32 size | u32 uncompressed size) |
///     the frames
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "formats/litdata/litdata_index.h"
#include "stoker/status.h"

namespace stoker {

struct LitdataInflateOptions {
  /// Limit of the plain chunk. Offsets have 32 bits, so no chunk is larger than the default.
  std::uint64_t output_bytes_max = UINT32_MAX;
  /// Limit of plain over compressed size, applied above 1 MiB.
  std::uint64_t ratio_max = 1000;
};

/// Returns the plain form of `file`, which contains `chunk` of `index`. If the index says batches
/// or samples but the file is plain (LitData leaves some uncompressed, and its own reader cannot
/// read them), returns the file unchanged; the two forms cannot be confused. `corrupt` names the
/// chunk and the offset.
Result<std::vector<std::byte>> inflate_litdata_chunk(const LitdataIndex& index,
                                                     const LitdataChunk& chunk,
                                                     std::span<const std::byte> file,
                                                     const LitdataInflateOptions& options = {});

}  // namespace stoker
