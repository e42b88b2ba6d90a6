#include "checkpoint/history.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "checkpoint/text_file.h"

namespace stoker {
namespace {

constexpr std::size_t kManifestBytesMax = std::size_t{1} << 30;

}  // namespace

Result<CheckpointManifest> read_checkpoint_manifest(FileOps& ops, const std::string& directory) {
  const std::string path = directory + "/" + std::string(kManifestName);
  STOKER_ASSIGN(const std::string text, read_text_file(ops, path, kManifestBytesMax));
  return parse_checkpoint_manifest(text, path);
}

Status History::refresh() {
  STOKER_ASSIGN(const std::vector<std::string> names, ops_->list(directory_));
  std::map<std::string, Entry> entries;
  for (const std::string& name : names) {
    const std::optional<StepName> parsed = parse_step_name(name);
    if (!parsed) continue;
    if (const auto known = entries_.find(name); known != entries_.end()) {
      entries.insert(*known);  // a committed step never changes, but its name may: forget()
      continue;
    }
    Entry entry{.name = *parsed};
    // A damaged one is no reason to stop saving; `verify` is for that.
    const Result<CheckpointManifest> manifest =
        read_checkpoint_manifest(*ops_, directory_ + "/" + name);
    if (manifest.ok()) {
      entry.generation = manifest->generation;
      entry.parent = manifest->parent;
    } else if (parsed->superseded_generation) {
      entry.generation = *parsed->superseded_generation;
    }
    entries.emplace(name, std::move(entry));
  }
  entries_ = std::move(entries);
  return {};
}

std::uint64_t History::greatest_generation() const noexcept {
  std::uint64_t greatest = 0;
  for (const auto& [name, entry] : entries_) greatest = std::max(greatest, entry.generation);
  return greatest;
}

const History::Entry* History::find(std::uint64_t step) const {
  const auto found = entries_.find(step_name(step));
  return found == entries_.end() ? nullptr : &found->second;
}

bool History::is_ancestor(const Entry& entry, const std::optional<CheckpointParent>& head) const {
  std::optional<CheckpointParent> at = head;
  // Generations fall along the chain, so it ends even if somebody has tied it into a loop.
  while (at && at->generation >= entry.generation && at->generation > 0) {
    if (at->generation == entry.generation) return at->step == entry.name.step;
    const auto next = std::find_if(entries_.begin(), entries_.end(), [&](const auto& item) {
      return item.second.generation == at->generation;
    });
    if (next == entries_.end()) return false;  // removed by retention: the chain cannot be followed
    const std::optional<CheckpointParent> parent = next->second.parent;
    if (parent && parent->generation >= at->generation) return false;
    at = parent;
  }
  return false;
}

}  // namespace stoker
