#include "checkpoint/manifest/manifest_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_set>

#include "checkpoint/manifest/slices.h"
#include "formats/json/strict_json.h"
#include "formats/plain_name.h"

namespace stoker::internal {
namespace {

Status corrupt(std::string_view what, std::string_view message) {
  return {Code::corrupt, fmt::format("{}: {}", what, message)};
}

Status check_files(std::span<const CheckpointFile> files, std::string_view what) {
  std::unordered_set<std::string_view> names;
  for (const CheckpointFile& file : files) {
    const std::string shown = quote_for_message(file.name);
    if (!is_plain_file_name(file.name)) {
      return corrupt(what, "not the name of a file in this directory: " + shown);
    }
    if (!names.insert(file.name).second || file.name == kManifestName) {
      return corrupt(what,
                     fmt::format("the file {} is a duplicate, or the manifest itself", shown));
    }
    const std::uint64_t chunk_count = file.size_bytes / kCheckpointChunkBytes +
                                      (file.size_bytes % kCheckpointChunkBytes != 0 ? 1 : 0);
    if (file.chunks.size() != chunk_count) {
      return corrupt(what, fmt::format("the file {} of {} bytes has {} checksums, not {}", shown,
                                       file.size_bytes, file.chunks.size(), chunk_count));
    }
  }
  return {};
}

/// Returns what is wrong with the slice of a tensor; empty if nothing.
std::string_view slice_fault(const CheckpointTensor& tensor) {
  const std::size_t dimensions = tensor.global_shape.size();
  if (tensor.offsets.size() != dimensions || tensor.shape.size() != dimensions) {
    return "its slice has another number of dimensions";
  }
  for (std::size_t d = 0; d < dimensions; ++d) {
    if (tensor.offsets[d] > tensor.global_shape[d] ||
        tensor.shape[d] > tensor.global_shape[d] - tensor.offsets[d]) {
      return "its slice is outside of it";
    }
  }
  return {};
}

Status check_tensor(const CheckpointTensor& tensor, std::span<const CheckpointFile> files,
                    std::string_view what) {
  const auto fault = [&](std::string_view message) {
    return corrupt(what, fmt::format("tensor {}: {}", quote_for_message(tensor.name), message));
  };
  if (const std::string_view message = slice_fault(tensor); !message.empty()) {
    return fault(message);
  }
  const Result<std::uint64_t> global = tensor_bytes(tensor.type, tensor.global_shape);
  if (!global.ok()) return fault(global.status().message());
  const Result<std::uint64_t> size = tensor_bytes(tensor.type, tensor.shape);
  if (!size.ok()) return fault(size.status().message());
  if (tensor.file >= files.size()) {
    return fault(fmt::format("refers to file {} of {}", tensor.file, files.size()));
  }
  const CheckpointFile& file = files[tensor.file];
  if (tensor.begin_bytes < kSafetensorsHeaderBytesMin || tensor.end_bytes < tensor.begin_bytes ||
      tensor.end_bytes > file.size_bytes) {
    return fault(fmt::format("bytes {} to {} are not in the data of {}, which has {} bytes",
                             tensor.begin_bytes, tensor.end_bytes, quote_for_message(file.name),
                             file.size_bytes));
  }
  if (tensor.end_bytes - tensor.begin_bytes != *size) {
    return fault(fmt::format("has {} bytes by its shape, {} by its range", *size,
                             tensor.end_bytes - tensor.begin_bytes));
  }
  return {};
}

/// `slices` are all slices of one tensor.
Status check_slices(std::span<const CheckpointTensor* const> slices, std::string_view what) {
  if (slices.size() < 2) return {};
  const CheckpointTensor& first = *slices.front();
  const auto fault = [&](std::string_view message) {
    return corrupt(what, fmt::format("tensor {}: {}", quote_for_message(first.name), message));
  };
  std::vector<Slice> boxes;
  for (const CheckpointTensor* slice : slices) {
    if (slice->type != first.type || slice->global_shape != first.global_shape) {
      return fault("its slices disagree about its type or shape");
    }
    if (!boxes.empty() && std::ranges::equal(boxes.back().offsets, slice->offsets)) {
      return fault(fmt::format("duplicate slice at [{}]", fmt::join(slice->offsets, ", ")));
    }
    boxes.push_back({.offsets = slice->offsets, .shape = slice->shape});
  }
  const auto overlap = find_overlap(boxes);
  if (!overlap.ok()) return fault(overlap.status().message());
  if (!overlap->has_value()) return {};
  return fault(fmt::format("its slices at [{}] and [{}] overlap",
                           fmt::join(boxes[(*overlap)->first].offsets, ", "),
                           fmt::join(boxes[(*overlap)->second].offsets, ", ")));
}

/// Otherwise a small file could be restored as any number of large tensors. `sorted` is in any
/// order, and is left in the order of the files.
Status check_ranges(std::span<const CheckpointTensor*> sorted,
                    std::span<const CheckpointFile> files, std::string_view what) {
  std::ranges::sort(sorted, [](const CheckpointTensor* a, const CheckpointTensor* b) {
    return std::tie(a->file, a->begin_bytes, a->end_bytes) <
           std::tie(b->file, b->begin_bytes, b->end_bytes);
  });
  const CheckpointTensor* before = nullptr;  // the last one that has bytes
  for (const CheckpointTensor* tensor : sorted) {
    if (tensor->begin_bytes == tensor->end_bytes) continue;
    if (before != nullptr && before->file == tensor->file &&
        before->end_bytes > tensor->begin_bytes)
      return corrupt(what,
                     fmt::format("tensors {} and {}: their bytes in {} overlap",
                                 quote_for_message(before->name), quote_for_message(tensor->name),
                                 quote_for_message(files[tensor->file].name)));
    before = tensor;
  }
  return {};
}

}  // namespace

Status check_manifest_entries(std::span<const CheckpointFile> files,
                              std::span<const CheckpointTensor> tensors, std::string_view what) {
  STOKER_TRY(check_files(files, what));
  std::vector<const CheckpointTensor*> sorted;
  sorted.reserve(tensors.size());
  for (const CheckpointTensor& tensor : tensors) {
    STOKER_TRY(check_tensor(tensor, files, what));
    sorted.push_back(&tensor);
  }
  STOKER_TRY(check_ranges(sorted, files, what));
  std::unordered_set<std::string_view> names;
  names.reserve(tensors.size());
  for (const CheckpointTensor& tensor : tensors) names.insert(tensor.name);
  if (names.size() == tensors.size()) return {};  // none has several slices
  std::ranges::sort(sorted, [](const CheckpointTensor* a, const CheckpointTensor* b) {
    return std::tie(a->name, a->offsets) < std::tie(b->name, b->offsets);
  });
  for (auto begin = sorted.begin(); begin != sorted.end();) {
    const auto end = std::find_if(
        begin, sorted.end(), [&](const CheckpointTensor* t) { return t->name != (*begin)->name; });
    STOKER_TRY(check_slices(std::span(begin, end), what));
    begin = end;
  }
  return {};
}

Status check_duplicate_entries(std::span<const CheckpointFile> files,
                               std::span<const CheckpointTensor> tensors,
                               std::span<const CheckpointTensor> duplicates,
                               std::string_view what) {
  std::vector<const CheckpointTensor*> sorted;
  for (const CheckpointTensor& tensor : tensors) sorted.push_back(&tensor);
  for (const CheckpointTensor& tensor : duplicates) {
    STOKER_TRY(check_tensor(tensor, files, what));
    sorted.push_back(&tensor);
  }
  return check_ranges(sorted, files, what);
}

}  // namespace stoker::internal
