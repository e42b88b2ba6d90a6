#include "checkpoint/catalog.h"

#include <algorithm>
#include <cerrno>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "checkpoint/history.h"

namespace stoker {
namespace {

/// Each attempt fails only because a step went away in its few milliseconds.
constexpr int kAttemptsMax = 100;

/// Reads the manifest of one step. `not_found` if the whole step is gone by now.
Result<CatalogStep> look_at(FileOps& ops, const std::string& directory, const std::string& name,
                            const StepName& parsed) {
  CatalogStep step{.name = name, .parsed = parsed, .manifest = nullptr, .damage = {}};
  Result<CheckpointManifest> manifest = read_checkpoint_manifest(ops, directory + "/" + name);
  if (manifest.ok()) {
    step.generation = manifest->generation;
    if (manifest->step != parsed.step)
      step.damage = Status(Code::corrupt, directory + "/" + name + ": its manifest is of step " +
                                              std::to_string(manifest->step));
    else
      step.manifest = std::make_shared<const CheckpointManifest>(*std::move(manifest));
    return step;
  }
  step.damage = manifest.status();
  step.generation = parsed.superseded_generation.value_or(0);
  if (is_gone(manifest.status())) {
    // Without its manifest it is damaged; without its directory it is not there.
    const Result<FileKind> kind = ops.kind_of(directory + "/" + name);
    if (!kind.ok()) return kind.status();
    if (manifest.status().code() != Code::not_found) return manifest.status();
    step.damage = Status(Code::corrupt, directory + "/" + name + ": there is no manifest", ENOENT);
  }
  return step;
}

Result<std::string> read_latest(FileOps& ops, const std::string& directory) {
  Result<std::string> target = ops.read_link(directory + "/" + std::string(kLatestName));
  // No link, or something that is none: nothing to follow.
  if (target.status().code() == Code::not_found || target.status().code() == Code::invalid_argument)
    return std::string();
  return target;
}

Result<Catalog> list_once(FileOps& ops, const std::string& directory) {
  Catalog catalog;
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(directory));
  for (const std::string& name : names) {
    const std::optional<StepName> parsed = parse_step_name(name);
    if (!parsed) continue;
    STOKER_ASSIGN(CatalogStep step, look_at(ops, directory, name, *parsed));
    catalog.steps.push_back(std::move(step));
  }
  STOKER_ASSIGN(catalog.latest, read_latest(ops, directory));
  std::ranges::sort(catalog.steps, [](const CatalogStep& a, const CatalogStep& b) {
    return std::tie(b.generation, b.name) < std::tie(a.generation, a.name);
  });
  mark_nonfinite(catalog);
  return catalog;
}

using Counts = std::map<std::string_view, std::uint64_t>;

Counts nonfinite_counts(const CheckpointManifest& manifest) {
  Counts counts;
  for (const CheckpointTensor& tensor : manifest.tensors)
    if (tensor.nonfinite_count > 0) counts[tensor.name] += tensor.nonfinite_count;
  return counts;
}

}  // namespace

bool is_gone(const Status& status) noexcept {
  return status.code() == Code::not_found || status.os_error() == ESTALE;
}

const CatalogStep* Catalog::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(steps, name, &CatalogStep::name);
  return found == steps.end() ? nullptr : &*found;
}

const CatalogStep* Catalog::newest() const noexcept {
  const auto found =
      std::ranges::find_if(steps, [](const CatalogStep& step) { return step.manifest != nullptr; });
  return found == steps.end() ? nullptr : &*found;
}

void mark_nonfinite(Catalog& catalog) {
  std::optional<Counts> sound;  // of the last step that is not marked
  for (auto step = catalog.steps.rbegin(); step != catalog.steps.rend(); ++step) {
    if (step->manifest == nullptr) continue;
    Counts counts = nonfinite_counts(*step->manifest);
    step->has_new_nonfinite = sound && std::ranges::any_of(counts, [&](const auto& item) {
                                const auto before = sound->find(item.first);
                                return before == sound->end() || item.second > before->second;
                              });
    if (!step->has_new_nonfinite) sound = std::move(counts);
  }
}

Result<Catalog> list_checkpoints(FileOps& ops, const std::string& directory) {
  Status last;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    Result<Catalog> catalog = list_once(ops, directory);
    if (catalog.ok() || !is_gone(catalog.status())) return catalog;
    last = catalog.status();
    // If the directory itself is gone there is nothing to list again.
    if (const Result<FileKind> kind = ops.kind_of(directory);
        !kind.ok() && kind.status().os_error() != ESTALE)
      return kind.status();
  }
  return Status(Code::unavailable, directory + ": changes faster than it can be listed: " +
                                       std::string(last.message()));
}

}  // namespace stoker
