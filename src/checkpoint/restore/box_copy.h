/// \file
/// Which bytes of a saved slice belong where in memory. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest/manifest.h"

namespace stoker {

/// A tensor, or a box of one, and the memory that it is wanted in.
struct ReadTarget {
  std::string name;
  /// In the whole tensor, wherever its slices were saved. An empty shape is the whole tensor.
  std::vector<std::uint64_t> offsets = {};
  std::vector<std::uint64_t> shape = {};
  /// All that may be written. Borrowed. A target that reaches beyond it is refused.
  std::span<std::byte> memory = {};
  std::size_t first_bytes = 0;  ///< Where in it the first element wanted lies.
  /// Between neighbours of each dimension, negative ones allowed. Empty: no gaps, last dimension
  /// fastest.
  std::vector<std::int64_t> strides_bytes = {};
};

/// A copy of equally long runs out of a file.
struct BoxCopy {
  struct Loop {
    std::uint64_t count = 0;
    std::uint64_t source_stride_bytes = 0;
    std::int64_t target_stride_bytes = 0;
  };

  std::uint32_t tensor = 0;       ///< Index into the manifest's tensors.
  std::uint64_t begin_bytes = 0;  ///< Of the first run, in the file.
  std::byte* into = nullptr;      ///< Of the first run.
  std::uint64_t run_bytes = 0;
  std::vector<Loop> loops;  ///< Outermost first; none for a single run.

  std::uint64_t run_count() const noexcept;
  /// Behind the last run, in the file.
  std::uint64_t end_bytes() const noexcept;
};

/// A part of a run.
struct RunPiece {
  std::uint64_t offset_bytes = 0;  ///< In the file.
  std::byte* into = nullptr;
  std::size_t size_bytes = 0;
};

/// Calls `visit` for what the copy takes from [begin, end) of the file, in the file's order.
void for_each_run(const BoxCopy& copy, std::uint64_t begin_bytes, std::uint64_t end_bytes,
                  const std::function<void(const RunPiece&)>& visit);

/// The hull of what the copy takes from [begin, end): the first byte and the one behind the last.
/// Two equal numbers if it takes nothing.
std::pair<std::uint64_t, std::uint64_t> hull_of(const BoxCopy& copy, std::uint64_t begin_bytes,
                                                std::uint64_t end_bytes);

/// Appends the copies that fill `target` from `slices`, all that were saved of the tensor, by their
/// indices into the manifest's tensors. `invalid_argument` if the target does not lie in the
/// tensor, its strides do not fit, or its memory is too small; `corrupt` if some of its elements
/// were never saved; `unsupported` for a box of a type of less than a byte that is neither a saved
/// slice nor made of whole ones.
Status plan_copies(const CheckpointManifest& manifest, std::span<const std::uint32_t> slices,
                   const ReadTarget& target, std::vector<BoxCopy>& copies);

}  // namespace stoker
