/// \file
/// Maps bytes of saved slices to their places in memory. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "stoker/tensor.h"

namespace stoker {

/// A copy of runs of equal length from a file to memory.
struct BoxCopy {
  struct Loop {
    std::uint64_t count = 0;
    std::uint64_t source_stride_bytes = 0;
    std::int64_t target_stride_bytes = 0;
  };

  std::uint32_t tensor = 0;       ///< Index into the manifest's tensors.
  std::uint64_t begin_bytes = 0;  ///< File offset of the first run.
  std::byte* into = nullptr;      ///< Destination of the first run.
  std::uint64_t run_bytes = 0;
  std::vector<Loop> loops;            ///< Outermost first; empty for a single run.
  std::int32_t device = kHostMemory;  ///< Of `into`.

  std::uint64_t run_count() const noexcept;
  /// File offset of the end of the last run.
  std::uint64_t end_bytes() const noexcept;
};

/// A part of a run.
struct RunPiece {
  std::uint64_t offset_bytes = 0;  ///< File offset.
  std::byte* into = nullptr;
  std::size_t size_bytes = 0;
};

/// Calls `visit` for each piece that the copy takes from [begin, end) of the file, in file order.
void for_each_run(const BoxCopy& copy, std::uint64_t begin_bytes, std::uint64_t end_bytes,
                  const std::function<void(const RunPiece&)>& visit);

/// Returns the smallest file range that contains all bytes the copy takes from [begin, end): its
/// begin and end. Both are equal if it takes nothing.
std::pair<std::uint64_t, std::uint64_t> hull_of(const BoxCopy& copy, std::uint64_t begin_bytes,
                                                std::uint64_t end_bytes);

/// Appends the copies that fill `target` from `slices`: all saved slices of the tensor, as indexes
/// into the manifest's tensors. `invalid_argument` if the target is not inside the tensor, has the
/// wrong number of strides, or too little memory; `corrupt` if some of its elements were not saved;
/// `unsupported` for strides of elements smaller than a byte, and for a box of them that ends
/// inside a byte, unless it is exactly one saved slice.
Status plan_copies(const CheckpointManifest& manifest, std::span<const std::uint32_t> slices,
                   const ReadTarget& target, std::vector<BoxCopy>& copies);

}  // namespace stoker
