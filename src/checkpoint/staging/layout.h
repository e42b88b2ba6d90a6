/// \file
/// Where every byte of a rank's checkpoint will lie, planned before the first of them moves. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "formats/arrays/safetensors.h"
#include "stoker/status.h"

namespace stoker {

/// A tensor, or the slice of one that this rank holds, to be saved.
struct SaveTensor {
  std::string name = {};
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> shape = {};  ///< Of the slice.
  /// Of the whole tensor, and where the slice begins in it. Empty: the slice is the whole.
  std::vector<std::uint64_t> global_shape = {};
  std::vector<std::uint64_t> offsets = {};
  /// Borrowed until it is copied. In this process's memory, unless the save has a TensorCopier that
  /// takes it for something else.
  const std::byte* data = nullptr;
  /// Distance between neighbours of each dimension, negative ones allowed. Empty: no gaps, last
  /// dimension fastest. Types of less than a byte must have none.
  std::vector<std::int64_t> strides_bytes = {};
  bool likely_unchanged = false;  ///< `requires_grad=False`: worth a file that can be linked.
};

/// A tensor's place in a file.
struct PlacedTensor {
  std::uint32_t tensor = 0;       ///< Index into what was given to plan_layout().
  std::uint64_t begin_bytes = 0;  ///< In the file, header included.
  std::uint64_t end_bytes = 0;
};

struct LayoutFile {
  std::string name = {};
  std::optional<std::uint32_t> group;  ///< Of tensors that are not expected to change.
  std::string header;                  ///< The file's first bytes, a multiple of 4096.
  std::uint64_t size_bytes = 0;
  std::vector<PlacedTensor> tensors;  ///< By begin_bytes, without gaps after the header.

  std::size_t chunk_count() const noexcept {
    return static_cast<std::size_t>((size_bytes + kCheckpointChunkBytes - 1) /
                                    kCheckpointChunkBytes);
  }
  /// All have kCheckpointChunkBytes but the last.
  std::size_t chunk_bytes(std::size_t chunk) const noexcept;
  /// The tensors that have bytes in [begin, end) of the file.
  std::span<const PlacedTensor> overlapping(std::uint64_t begin_bytes,
                                            std::uint64_t end_bytes) const noexcept;
};

/// One chunk of one file.
struct ChunkRef {
  std::uint32_t file = 0;
  std::uint32_t chunk = 0;

  std::uint64_t offset_bytes() const noexcept { return chunk * kCheckpointChunkBytes; }
};

/// What one rank writes: its own file, then one for each group.
struct CheckpointLayout {
  std::uint32_t rank = 0;
  std::vector<LayoutFile> files;
  std::vector<ChunkRef> chunks;  ///< Of all files, in order.

  std::uint64_t size_bytes() const noexcept;
};

inline constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};

/// Lays out `tensors`, those of a group in that group's file: larger elements first, then by name,
/// which is safetensors' own order and keeps every element aligned. `group_of` has one entry for
/// each tensor, or is empty. `invalid_argument` names a tensor with a duplicate name, whose slice
/// does not fit, or whose strides do not match its shape.
Result<CheckpointLayout> plan_layout(std::uint32_t rank, std::span<const SaveTensor> tensors,
                                     std::span<const std::uint32_t> group_of = {});

/// The layout as a manifest tells it: files without checksums, tensors without counts.
CheckpointPart describe(const CheckpointLayout& layout, std::span<const SaveTensor> tensors);

}  // namespace stoker
