// All checkpoints of a directory, and what lies beside them. verify.cc looks at one.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/directory/catalog.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"

namespace stoker {

Result<CheckpointVerifyReport> verify_checkpoints(const CheckpointDirectory& directory,
                                                  const CheckpointVerifyOptions& options) {
  constexpr int kAttemptsMax = 1000;
  CheckpointVerifyReport all;
  // Where all that were there are gone by now there are others.
  for (int attempt = 0; attempt < kAttemptsMax && all.step_count == 0; ++attempt) {
    STOKER_ASSIGN(const Catalog catalog, list_checkpoints(directory));
    if (catalog.steps.empty()) break;
    for (const CatalogStep& step : catalog.steps) {
      Result<CheckpointVerifyReport> report = verify_checkpoint(directory, step.name, options);
      if (!report.ok() && is_gone(report.status())) continue;
      if (report.status().code() == Code::cancelled) return report.status();
      ++all.step_count;
      if (!report.ok()) {
        all.unchecked.emplace_back(step.name, report.status());
        continue;
      }
      all.checked_bytes += report->checked_bytes;
      std::ranges::move(report->damages, std::back_inserter(all.damages));
    }
  }
  if (std::optional<CheckpointDamage> damage = check_latest(directory))
    all.damages.push_back(*std::move(damage));
  STOKER_ASSIGN(std::vector<CheckpointDamage> foreign, find_foreign_names(directory));
  std::ranges::move(foreign, std::back_inserter(all.damages));
  return all;
}

std::optional<CheckpointDamage> check_latest(const CheckpointDirectory& directory) {
  FileOps& ops = directory.ops();
  CheckpointDamage damage{
      .kind = DamageKind::bad_latest, .step = "", .file = std::string(kLatestName), .reason = ""};
  const Result<FileKind> kind = ops.kind_of(directory.at(kLatestName));
  if (kind.ok() && *kind != FileKind::symlink) {
    damage.reason = "it is no symbolic link, and no save can make it one: give it another name";
    return damage;
  }
  const Result<Catalog> catalog = list_checkpoints(directory);
  if (!catalog.ok() || catalog->latest.empty()) return std::nullopt;
  if (catalog->find(catalog->latest) != nullptr) return std::nullopt;
  damage.step = catalog->latest;
  damage.reason = "there is no such checkpoint";
  if (!parse_step_name(catalog->latest)) {
    damage.reason = "that is no name of a checkpoint";
    return damage;
  }
  // It is read after the list was made: a commit may have moved it to a step that is newer.
  if (ops.info_of(directory.at(catalog->latest)).ok()) return std::nullopt;
  return damage;
}

Result<std::vector<CheckpointDamage>> find_foreign_names(const CheckpointDirectory& directory) {
  STOKER_ASSIGN(const std::vector<DirectoryName> names,
                directory.ops().list_names(directory.self()));
  std::vector<CheckpointDamage> found;
  for (const DirectoryName& name : names) {
    const bool is_for_directory = name.name == kNotesName || is_owner_name(name.name) ||
                                  is_meeting_name(name.name) || is_trash_name(name.name);
    const bool is_for_file = name.name == kLockName || name.name == kCatalogName ||
                             parse_epoch_name(name.name) || is_epoch_claim_name(name.name);
    if ((is_for_directory && name.kind != FileKind::directory) ||
        (is_for_file && name.kind != FileKind::regular))
      found.push_back(
          {.kind = DamageKind::foreign_file,
           .step = "",
           .file = name.name,
           .reason = is_for_directory ? "it is no directory" : "it is no regular file"});
  }
  return found;
}

}  // namespace stoker
