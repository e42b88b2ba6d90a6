#include "api/restore_attempt.h"

#include <algorithm>
#include <utility>

#include "api/border.h"
#include "api/cursor_tree.h"
#include "api/saved_trees.h"
#include "api/tree_access.h"
#include "api/tree_json.h"
#include "checkpoint/manifest/manifest_file.h"
#include "formats/plain_name.h"
#include "stoker/loader.h"

namespace stoker::internal {

RestoreTrial RestoreAttempt::trial() {
  return {.check = [this](const CheckpointReader& reader) -> RestoreReport {
            is_callers_ = false;
            const Status status = at_border([&] { return check(reader); });
            return {.status = status, .is_callers = is_callers_};
          },
          .read = [this](const CheckpointReader& reader) -> RestoreReport {
            return {.status = at_border([&] { return read(reader); })};
          }};
}

Status RestoreAttempt::check(const CheckpointReader& reader) {
  const CheckpointManifest& manifest = reader.manifest();
  const std::string source = "step " + std::to_string(manifest.step);
  const std::string file = reader.directory() + "/" + std::string(kManifestName);
  fit_.reset();
  STOKER_ASSIGN(Tree saved, saved_trees(reader, static_cast<std::uint32_t>(settings_.ranks.rank),
                                        static_cast<std::uint32_t>(settings_.ranks.world_size)));
  fit_.emplace(reader, TreeFit::Options{.source = source,
                                        .is_strict = options_.strict,
                                        .is_staged = options_.verify_before});
  restored_ = {.step = manifest.step,
               .path = reader.directory(),
               .generation = manifest.generation,
               .line = manifest.line,
               .world_size = manifest.world_size,
               .reference = manifest.reference};
  made_ = Tree::map();
  for (const Tree::Field& field : trees_.fields()) {
    const Tree* const value = std::as_const(saved).find(field.name);
    if (value != nullptr) {
      TreeAccess::add(made_, field.name, fit_->fit(*value, field.value, field.name));
      continue;
    }
    TreeAccess::add(made_, field.name, field.value);
    if (!options_.strict) {
      restored_.missing.push_back(field.name);
      continue;
    }
    std::string there;
    for (const Tree::Field& one : saved.fields())
      there.append(there.empty() ? "" : ", ").append(one.name);
    fit_->refuse(source + " has no tree " + field.name + "; it has " +
                 (there.empty() ? "nothing" : there));
  }
  for (const Tree::Field& field : saved.fields())
    if (trees_.find(field.name) == nullptr) restored_.left_out.push_back(field.name);
  STOKER_TRY(fit_->check());
  STOKER_ASSIGN(restored_.extra, read_tree(manifest.extra_json, file + ": extra"));
  STOKER_ASSIGN(restored_.cursor,
                read_cursor_tree(manifest.cursor_json, file + ": the loader's state"));
  if (options_.loader != nullptr) STOKER_TRY(check_loader(source));
  if (options_.check_cursor && restored_.cursor) {
    is_callers_ = true;
    STOKER_TRY(options_.check_cursor(*restored_.cursor));
    is_callers_ = false;
  }
  const std::vector<std::string>& missing = fit_->missing();
  restored_.missing.insert(restored_.missing.end(), missing.begin(), missing.end());
  targets_ = fit_->targets();
  return {};
}

Status RestoreAttempt::check_loader(const std::string& source) const {
  if (!restored_.cursor)
    return {Code::invalid_argument,
            source +
                " was saved without a loader: restore without one, and the data start from the "
                "beginning"};
  const std::vector<std::string_view> allow(options_.allow.begin(), options_.allow.end());
  return options_.loader->check(*restored_.cursor, allow);
}

Status RestoreAttempt::read(const CheckpointReader& reader) {
  CheckpointReader::ReadOptions options;
  for (const DeviceStream& stream : options_.streams)
    options.devices.streams.emplace_back(stream.device, stream.handle);
  options.devices.memory = memory_;
  const Status status = reader.read_all(targets_, options);
  if (!status.ok() && fit_->fills_memory()) {
    const std::string& path = reader.directory();
    const std::string name = path.substr(path.rfind('/') + 1);
    partly_read_.push_back(is_damage(status) ? name + ", which is damaged" : name);
  }
  return status;
}

std::string RestoreAttempt::tell_partly_read() const {
  if (partly_read_.empty()) return {};
  std::string text = " (the restore was not completed, and tensors may contain bytes of ";
  for (std::size_t i = 0; i < partly_read_.size(); ++i)
    text.append(i > 0 ? ", and of " : "").append(partly_read_[i]);
  return text + ": do not use them)";
}

Result<Restored> RestoreAttempt::finish(Tree& trees) {
  if (options_.loader != nullptr) {  // first: it may fail
    const std::vector<std::string_view> allow(options_.allow.begin(), options_.allow.end());
    STOKER_TRY(options_.loader->resume(*restored_.cursor, allow));
    options_.loader->count_from(restored_.step);
  }
  fit_->copy();
  trees = std::move(made_);
  return std::move(restored_);
}

}  // namespace stoker::internal
