// Verifies all checkpoints of a store, and the names beside them. verify.cc verifies one
// checkpoint.
#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"

namespace stoker {

Result<CheckpointVerifyReport> verify_checkpoints(const CheckpointStore& store,
                                                  const CheckpointVerifyOptions& options) {
  constexpr int kAttemptsMax = 1000;
  CheckpointVerifyReport all;
  // If all listed checkpoints were removed meanwhile, there are newer ones: list again.
  for (int attempt = 0; attempt < kAttemptsMax && all.step_count == 0; ++attempt) {
    STOKER_ASSIGN(const Catalog catalog, list_checkpoints(store));
    if (catalog.steps.empty()) break;
    for (const CatalogStep& step : catalog.steps) {
      Result<CheckpointVerifyReport> report = verify_checkpoint(store, step.name, options);
      if (!report.ok() && is_gone(report.status())) continue;
      if (report.status().code() == Code::cancelled) return report.status();
      ++all.step_count;
      if (!report.ok()) {
        all.unchecked.emplace_back(step.name, report.status());
        continue;
      }
      all.checked_bytes += report->checked_bytes;
      all.elsewhere_count += report->elsewhere_count;
      std::ranges::move(report->damages, std::back_inserter(all.damages));
    }
  }
  if (std::optional<CheckpointDamage> damage = check_latest(store))
    all.damages.push_back(*std::move(damage));
  STOKER_ASSIGN(std::vector<CheckpointDamage> foreign, find_foreign_names(store));
  std::ranges::move(foreign, std::back_inserter(all.damages));
  return all;
}

std::optional<CheckpointDamage> check_latest(const CheckpointStore& store) {
  CheckpointDamage damage{
      .kind = DamageKind::bad_latest, .step = "", .file = std::string(kLatestName), .reason = ""};
  const Result<std::vector<ForeignName>> foreign = store.find_foreign_names();
  if (foreign.ok()) {
    const auto latest = std::ranges::find(*foreign, kLatestName, &ForeignName::name);
    if (latest != foreign->end()) {
      damage.reason = latest->reason;
      return damage;
    }
  }
  const Result<Catalog> catalog = list_checkpoints(store);
  if (!catalog.ok() || catalog->latest.empty()) return std::nullopt;
  if (catalog->find(catalog->latest) != nullptr) return std::nullopt;
  damage.step = catalog->latest;
  damage.reason = "there is no such checkpoint";
  if (!parse_step_name(catalog->latest)) {
    damage.reason = "not the name of a checkpoint";
    return damage;
  }
  // `latest` was read after the list: a commit may have moved it to a newer step.
  if (store.find_step(catalog->latest).ok()) return std::nullopt;
  return damage;
}

Result<std::vector<CheckpointDamage>> find_foreign_names(const CheckpointStore& store) {
  STOKER_ASSIGN(const std::vector<ForeignName> names, store.find_foreign_names());
  std::vector<CheckpointDamage> found;
  for (const ForeignName& name : names) {
    if (name.name == kLatestName) continue;  // check_latest()
    found.push_back(
        {.kind = DamageKind::foreign_file, .step = "", .file = name.name, .reason = name.reason});
  }
  return found;
}

}  // namespace stoker
