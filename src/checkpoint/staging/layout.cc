#include "checkpoint/staging/layout.h"

#include <algorithm>
#include <map>
#include <utility>

#include "checkpoint/manifest/names.h"

namespace stoker {
namespace {

/// The usual page size and direct I/O alignment, so that the data can be mapped or read directly.
constexpr std::size_t kDataAlignBytes = 4096;

Status bad(const SaveTensor& tensor, const char* why) {
  return Status(Code::invalid_argument, "tensor " + tensor.name + ": " + why);
}

Status check(const SaveTensor& tensor) {
  if (!tensor.offsets.empty() || !tensor.global_shape.empty()) {
    if (tensor.global_shape.size() != tensor.shape.size() ||
        tensor.offsets.size() != tensor.shape.size())
      return bad(tensor, "the slice and the whole tensor have different numbers of dimensions");
    for (std::size_t i = 0; i < tensor.shape.size(); ++i) {
      if (tensor.shape[i] > tensor.global_shape[i] ||
          tensor.offsets[i] > tensor.global_shape[i] - tensor.shape[i])
        return bad(tensor, "the slice is outside of the tensor");
    }
  }
  if (tensor.strides_bytes.empty()) return {};
  if (tensor.strides_bytes.size() != tensor.shape.size())
    return bad(tensor, "it must have as many strides as dimensions, or none");
  if (tensor_type_bits(tensor.type) % 8 != 0)
    return bad(tensor, "elements smaller than a byte cannot have strides");
  return {};
}

/// Assigns the tensors to files, by group, and sorts them in their order in the file.
std::map<std::uint32_t, std::vector<std::uint32_t>> deal(std::span<const SaveTensor> tensors,
                                                         std::span<const std::uint32_t> group_of) {
  std::map<std::uint32_t, std::vector<std::uint32_t>> files;
  files[kNoGroup];  // a rank's own file exists even if it is empty
  for (std::uint32_t i = 0; i < tensors.size(); ++i)
    files[group_of.empty() ? kNoGroup : group_of[i]].push_back(i);
  for (auto& [group, members] : files) {
    std::sort(members.begin(), members.end(), [&](std::uint32_t a, std::uint32_t b) {
      const std::size_t a_bits = tensor_type_bits(tensors[a].type);
      const std::size_t b_bits = tensor_type_bits(tensors[b].type);
      return a_bits != b_bits ? a_bits > b_bits : tensors[a].name < tensors[b].name;
    });
  }
  return files;
}

Result<LayoutFile> plan_file(std::string name, std::span<const std::uint32_t> members,
                             std::span<const SaveTensor> tensors) {
  std::vector<SafetensorsEntry> entries;
  entries.reserve(members.size());
  for (const std::uint32_t i : members)
    entries.push_back(
        {.name = tensors[i].name, .type = tensors[i].type, .shape = tensors[i].shape});
  LayoutFile file;
  file.name = std::move(name);
  STOKER_ASSIGN(file.header, format_safetensors(entries, {{"format", "pt"}}, kDataAlignBytes));
  file.size_bytes = file.header.size();
  for (std::size_t i = 0; i < members.size(); ++i) {
    file.tensors.push_back({.tensor = members[i],
                            .begin_bytes = file.header.size() + entries[i].begin_bytes,
                            .end_bytes = file.header.size() + entries[i].end_bytes});
    file.size_bytes = file.tensors.back().end_bytes;
  }
  return file;
}

}  // namespace

std::size_t LayoutFile::chunk_bytes(std::size_t chunk) const noexcept {
  const std::uint64_t begin = chunk * kCheckpointChunkBytes;
  return static_cast<std::size_t>(std::min(kCheckpointChunkBytes, size_bytes - begin));
}

std::span<const PlacedTensor> LayoutFile::overlapping(std::uint64_t begin_bytes,
                                                      std::uint64_t end_bytes) const noexcept {
  const auto first =
      std::partition_point(tensors.begin(), tensors.end(),
                           [&](const PlacedTensor& t) { return t.end_bytes <= begin_bytes; });
  const auto last = std::partition_point(
      first, tensors.end(), [&](const PlacedTensor& t) { return t.begin_bytes < end_bytes; });
  return {first, last};
}

std::uint64_t CheckpointLayout::size_bytes() const noexcept {
  std::uint64_t total = 0;
  for (const LayoutFile& file : files) total += file.size_bytes;
  return total;
}

Result<CheckpointLayout> plan_layout(std::uint32_t rank, std::span<const SaveTensor> tensors,
                                     std::span<const std::uint32_t> group_of) {
  if (!group_of.empty() && group_of.size() != tensors.size())
    return Status(Code::invalid_argument, "plan_layout: needs one group for each tensor, or none");
  std::vector<std::string_view> names;
  names.reserve(tensors.size());
  for (const SaveTensor& tensor : tensors) {
    STOKER_TRY(tensor_bytes(tensor.type, tensor.shape).status());
    STOKER_TRY(check(tensor));
    names.push_back(tensor.name);
  }
  std::sort(names.begin(), names.end());
  if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
    return Status(Code::invalid_argument, "tensor " + std::string(*twice) + ": duplicate name");

  CheckpointLayout layout;
  layout.rank = rank;
  auto dealt = deal(tensors, group_of);
  STOKER_ASSIGN(LayoutFile own, plan_file(rank_file_name(rank), dealt[kNoGroup], tensors));
  layout.files.push_back(std::move(own));
  dealt.erase(kNoGroup);
  for (const auto& [group, members] : dealt) {
    STOKER_ASSIGN(LayoutFile file, plan_file(group_file_name(rank, group), members, tensors));
    file.group = group;
    layout.files.push_back(std::move(file));
  }
  for (std::uint32_t i = 0; i < layout.files.size(); ++i) {
    const auto count = static_cast<std::uint32_t>(layout.files[i].chunk_count());
    for (std::uint32_t chunk = 0; chunk < count; ++chunk) layout.chunks.push_back({i, chunk});
  }
  return layout;
}

CheckpointPart describe(const CheckpointLayout& layout, std::span<const SaveTensor> tensors) {
  CheckpointPart part;
  part.rank = layout.rank;
  for (std::uint32_t i = 0; i < layout.files.size(); ++i) {
    const LayoutFile& file = layout.files[i];
    part.files.push_back({.name = file.name, .size_bytes = file.size_bytes, .chunks = {}});
    for (const PlacedTensor& placed : file.tensors) {
      const SaveTensor& tensor = tensors[placed.tensor];
      const bool is_whole = tensor.global_shape.empty();
      part.tensors.push_back(
          {.name = tensor.name,
           .type = tensor.type,
           .global_shape = is_whole ? tensor.shape : tensor.global_shape,
           .offsets = is_whole ? std::vector<std::uint64_t>(tensor.shape.size()) : tensor.offsets,
           .shape = tensor.shape,
           .file = i,
           .begin_bytes = placed.begin_bytes,
           .end_bytes = placed.end_bytes});
    }
  }
  return part;
}

}  // namespace stoker
