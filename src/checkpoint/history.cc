#include "checkpoint/history.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
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

Result<History::Identity> History::identity_of(int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return Status::from_errno(errno, "fstat", kManifestName);
  return Identity{.device = info.st_dev,
                  .inode = info.st_ino,
                  .size_bytes = static_cast<std::uint64_t>(info.st_size),
                  .changed_s = info.st_ctim.tv_sec,
                  .changed_ns = info.st_ctim.tv_nsec};
}

Result<History::Known> History::learn(const std::string& name,
                                      std::map<Identity, Known>& known) const {
  const std::string path = directory_ + "/" + name + "/" + std::string(kManifestName);
  STOKER_ASSIGN(const UniqueFd fd, open_text_file(*ops_, path));
  STOKER_ASSIGN(const Identity identity, identity_of(fd.get()));
  if (const auto found = known_.find(identity); found != known_.end())
    return known.insert(*found).first->second;
  STOKER_ASSIGN(const std::string text, read_text_file(fd.get(), path, kManifestBytesMax));
  STOKER_ASSIGN(const CheckpointManifest manifest, parse_checkpoint_manifest(text, path));
  return known
      .insert_or_assign(identity, Known{.generation = manifest.generation,
                                        .parent = manifest.parent,
                                        .lineage = manifest.lineage})
      .first->second;
}

Status History::refresh() {
  STOKER_ASSIGN(const std::vector<std::string> names, ops_->list(directory_));
  std::map<std::string, Entry> entries;
  std::map<Identity, Known> known;
  for (const std::string& name : names) {
    const std::optional<StepName> parsed = parse_step_name(name);
    if (!parsed) continue;
    Entry entry{.name = *parsed};
    // A damaged one is no reason to stop saving; `verify` is for that.
    const Result<Known> learned = learn(name, known);
    if (learned.ok()) {
      entry.generation = learned->generation;
      entry.parent = learned->parent;
      ever_.insert_or_assign(learned->generation, *learned);
    } else if (parsed->superseded_generation) {
      entry.generation = *parsed->superseded_generation;
    }
    greatest_generation_ = std::max(greatest_generation_, entry.generation);
    entries.emplace(name, std::move(entry));
  }
  entries_ = std::move(entries);
  known_ = std::move(known);
  return {};
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
    const auto next = ever_.find(at->generation);
    if (next == ever_.end()) return false;
    if (is_in_lineage(next->second.lineage, entry.generation)) return true;
    const std::optional<CheckpointParent> parent = next->second.parent;
    if (parent && parent->generation >= at->generation) return false;
    at = parent;
  }
  return false;
}

Lineage History::lineage_after(const std::optional<CheckpointParent>& head) const {
  std::vector<std::uint64_t> newest_first;
  Lineage lineage;
  std::optional<CheckpointParent> at = head;
  while (at && at->generation > 0 &&
         (newest_first.empty() || at->generation < newest_first.back())) {
    newest_first.push_back(at->generation);
    const auto found = ever_.find(at->generation);
    if (found == ever_.end()) break;
    lineage = found->second.lineage;
    if (!lineage.empty()) break;
    at = found->second.parent;  // of before there were lineages: as far as they can be followed
  }
  for (auto generation = newest_first.rbegin(); generation != newest_first.rend(); ++generation)
    lineage = continue_lineage(std::move(lineage), *generation);
  return lineage;
}

}  // namespace stoker
