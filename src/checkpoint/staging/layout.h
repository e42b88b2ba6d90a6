/// \file
/// The layout of a rank's files, planned before any byte is copied. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "stoker/safetensors.h"
#include "stoker/status.h"

namespace stoker {

/// A tensor to be saved, or this rank's slice of one.
struct SaveTensor {
  std::string name = {};
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> shape = {};  ///< Shape of the slice.
  /// Shape of the whole tensor, and position of the slice in it. Empty: the slice is the whole.
  std::vector<std::uint64_t> global_shape = {};
  std::vector<std::uint64_t> offsets = {};
  /// Borrowed until it is copied. An address in this process's memory, unless `device` is set or
  /// the TensorCopier of the save interprets it otherwise.
  const std::byte* data = nullptr;
  /// The number of the device in whose memory `data` is an address; kHostMemory: in none.
  std::int32_t device = kHostMemory;
  /// Stride of each dimension; may be negative. Empty: no gaps, last dimension fastest. Must be
  /// empty for elements smaller than a byte.
  std::vector<std::int64_t> strides_bytes = {};
  bool likely_unchanged = false;  ///< For example `requires_grad=False`: a candidate for linking.
  /// Whether it belongs to this rank alone. Otherwise a tensor that has the same name and the same
  /// bytes on several ranks is stored once (sharing.h).
  bool is_per_rank = false;
};

/// A tensor's place in a file.
struct PlacedTensor {
  std::uint32_t tensor = 0;       ///< Index into the argument of plan_layout().
  std::uint64_t begin_bytes = 0;  ///< Offset from the start of the file, not of its data.
  std::uint64_t end_bytes = 0;
};

struct LayoutFile {
  std::string name = {};
  std::optional<std::uint32_t> group;  ///< Set if its tensors are not expected to change.
  std::string header;                  ///< The first bytes of the file; a multiple of 4096 bytes.
  std::uint64_t size_bytes = 0;
  std::vector<PlacedTensor> tensors;  ///< Sorted by begin_bytes, without gaps after the header.

  std::size_t chunk_count() const noexcept {
    return static_cast<std::size_t>((size_bytes + kCheckpointChunkBytes - 1) /
                                    kCheckpointChunkBytes);
  }
  /// Returns the size of a chunk: kCheckpointChunkBytes, except for the last.
  std::size_t chunk_bytes(std::size_t chunk) const noexcept;
  /// Returns the tensors that have bytes in [begin, end) of the file.
  std::span<const PlacedTensor> overlapping(std::uint64_t begin_bytes,
                                            std::uint64_t end_bytes) const noexcept;
};

/// One chunk of one file.
struct ChunkRef {
  std::uint32_t file = 0;
  std::uint32_t chunk = 0;

  std::uint64_t offset_bytes() const noexcept { return chunk * kCheckpointChunkBytes; }
};

/// The files of one rank: its own file, then one for each group.
struct CheckpointLayout {
  std::uint32_t rank = 0;
  std::vector<LayoutFile> files;
  std::vector<ChunkRef> chunks;  ///< The chunks of all files, in order.

  std::uint64_t size_bytes() const noexcept;
};

inline constexpr std::uint32_t kNoGroup = ~std::uint32_t{0};

/// Lays out `tensors`, those of a group in the group's file: larger elements first, then by name,
/// which is the order of safetensors and keeps every element aligned. `group_of` has one entry for
/// each tensor, or is empty. The message of `invalid_argument` names a tensor with a duplicate
/// name, a slice outside the tensor, or wrong strides.
Result<CheckpointLayout> plan_layout(std::uint32_t rank, std::span<const SaveTensor> tensors,
                                     std::span<const std::uint32_t> group_of = {});

/// Returns the layout as a part manifest: files without checksums, tensors without digests and
/// counts.
CheckpointPart describe(const CheckpointLayout& layout, std::span<const SaveTensor> tensors);

}  // namespace stoker
