#include "checkpoint/staging/dedup.h"

#include <algorithm>

namespace stoker {

const CheckpointFile* LinkParent::find(std::string_view name,
                                       std::uint64_t size_bytes) const noexcept {
  for (const CheckpointFile& file : files) {
    if (file.name == name)
      return file.size_bytes == size_bytes && file.link_count < kLinksMax ? &file : nullptr;
  }
  return nullptr;
}

bool LinkParent::is_as_committed(const CheckpointFile& file, const FileInfo& info) const noexcept {
  const auto index = static_cast<std::size_t>(&file - files.data());
  if (index >= infos.size() || info.kind != FileKind::regular) return false;
  FileInfo committed = infos[index];
  committed.link_count = info.link_count;  // changes when checkpoints are saved or removed
  return info == committed && info.size_bytes == file.size_bytes;
}

bool GroupPlanner::is_same(const Known& known, const SaveTensor& tensor) {
  return known.type == tensor.type && known.shape == tensor.shape &&
         known.offsets == tensor.offsets;
}

void GroupPlanner::dissolve(std::uint32_t group) {
  for (auto& [name, known] : known_) {
    if (known.group == group) known.group = kNoGroup;
  }
  member_counts_.erase(group);
}

// Compares each tensor only once, in its second save, because it delays the caller; later scans
// show whether it changes.
void GroupPlanner::look_again(std::span<const SaveTensor> tensors, std::span<Known* const> known_of,
                              const CheckpointLayout& plain) {
  for (const LayoutFile& file : plain.files) {
    for (const PlacedTensor& placed : file.tensors) {
      const SaveTensor& tensor = tensors[placed.tensor];
      Known& known = *known_of[placed.tensor];
      const bool was_seen_once = known.is_recorded && !known.was_grouped && !known.has_changed &&
                                 known.equal_count == 0 && !known.looks_equal;
      const bool is_plain =
          tensor.data != nullptr && tensor.strides_bytes.empty() && tensor.device == kHostMemory;
      if (!was_seen_once || !is_plain) continue;
      known.looks_equal =
          fingerprint_of(placed, {tensor.data, placed.end_bytes - placed.begin_bytes}) ==
          known.fingerprint;
    }
  }
}

std::vector<std::uint32_t> GroupPlanner::plan(std::span<const SaveTensor> tensors,
                                              const CheckpointLayout& plain, bool may_look) {
  // A group is valid only as a whole: its file contains exactly its members.
  std::map<std::uint32_t, std::size_t> present;
  std::vector<Known*> known_of;  // entries of known_, which do not move
  known_of.reserve(tensors.size());
  for (const SaveTensor& tensor : tensors) {
    Known& known = *known_of.emplace_back(&known_[tensor.name]);
    if (!is_same(known, tensor)) {
      if (known.group != kNoGroup) dissolve(known.group);
      known = {.type = tensor.type, .shape = tensor.shape, .offsets = tensor.offsets};
    }
    if (known.group != kNoGroup) ++present[known.group];
  }
  const std::map<std::uint32_t, std::size_t> expected = member_counts_;
  for (const auto& [group, count] : expected) {
    const auto found = present.find(group);
    if (found == present.end() || found->second != count) dissolve(group);
  }

  if (may_look) look_again(tensors, known_of, plain);
  std::vector<std::uint32_t> candidates;
  std::uint64_t candidate_bytes = 0;
  const auto bytes_of = [&](std::uint32_t i) {
    const Result<std::uint64_t> size = tensor_bytes(tensors[i].type, tensors[i].shape);
    return size.ok() ? *size : 0;  // plan_layout() reports the error
  };
  for (std::uint32_t i = 0; i < tensors.size(); ++i) {
    const Known& known = *known_of[i];
    const bool is_likely = known.equal_count > 0 || known.looks_equal ||
                           (tensors[i].likely_unchanged && !known.has_changed);
    if (known.group != kNoGroup || !is_likely) continue;
    candidates.push_back(i);
    candidate_bytes += bytes_of(i);
  }
  if (candidate_bytes >= limits_.group_bytes_min) {
    std::sort(candidates.begin(), candidates.end(),
              [&](std::uint32_t a, std::uint32_t b) { return tensors[a].name < tensors[b].name; });
    std::uint64_t group_bytes = limits_.group_bytes_max;  // full, so that the first opens a group
    for (const std::uint32_t i : candidates) {
      if (group_bytes + bytes_of(i) > limits_.group_bytes_max) {
        ++next_group_;
        group_bytes = 0;
      }
      group_bytes += bytes_of(i);
      known_of[i]->group = next_group_ - 1;
      ++member_counts_[next_group_ - 1];
    }
  }
  std::vector<std::uint32_t> groups;
  groups.reserve(tensors.size());
  for (const Known* known : known_of) groups.push_back(known->group);
  return groups;
}

void GroupPlanner::record(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                          std::span<const TensorScan> scans) {
  for (const LayoutFile& file : layout.files) {
    bool is_broken = false;
    for (const PlacedTensor& placed : file.tensors) {
      const SaveTensor& tensor = tensors[placed.tensor];
      const auto found = known_.find(tensor.name);
      if (found == known_.end() || !is_same(found->second, tensor)) continue;
      Known& known = found->second;
      const std::uint64_t fingerprint = scans[placed.tensor].fingerprint;
      if (known.is_recorded && known.was_grouped == file.group.has_value()) {
        known.has_changed = known.fingerprint != fingerprint;
        known.looks_equal = false;
        known.equal_count = known.has_changed ? 0 : known.equal_count + 1;
        is_broken = is_broken || known.has_changed;
      }
      known.fingerprint = fingerprint;
      known.is_recorded = true;
      known.was_grouped = file.group.has_value();
    }
    if (is_broken && file.group) dissolve(*file.group);
  }
}

}  // namespace stoker
