/// \file
/// Compressed LitData chunks become the plain ones that LitdataReader reads. LitData uses zstd in
/// three ways: over the file as a whole; over each sample, with the offsets of what came out; and
/// over batches of samples, in a file of its own kind:
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
  /// Of the plain chunk. Offsets have 32 bits, so that no chunk is larger than the default.
  std::uint64_t output_bytes_max = UINT32_MAX;
  /// Plain over compressed, looked at above 1 MiB.
  std::uint64_t ratio_max = 1000;
};

/// The plain form of `file`, which holds `chunk` of `index`. Where the index speaks of batches or
/// samples, but the file is plain (LitData leaves some alone, and its own reader cannot read
/// them), it is returned as it is; the two cannot be taken for each other. `corrupt` names the
/// chunk and the offset.
Result<std::vector<std::byte>> inflate_litdata_chunk(const LitdataIndex& index,
                                                     const LitdataChunk& chunk,
                                                     std::span<const std::byte> file,
                                                     const LitdataInflateOptions& options = {});

}  // namespace stoker
