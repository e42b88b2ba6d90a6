#include "checkpoint/step_removal.h"

#include <cerrno>
#include <utility>

#include "checkpoint/lock_record.h"
#include "checkpoint/names.h"
#include "checkpoint/tree_removal.h"

namespace stoker {
namespace {

constexpr std::string_view kStepPrefix = "step-";

}  // namespace

// R1. Rename it to `.trash-N-<unique>`.  R2. fsync the parent: from here on no crash brings the
// name back, so none can bring it back half empty.
Result<std::string> hide_checkpoint(FileOps& ops, const std::string& directory,
                                    const std::string& name) {
  const std::optional<StepName> parsed = parse_step_name(name);
  if (!parsed) return Status(Code::invalid_argument, name + ": not the name of a checkpoint");
  std::string trash =
      directory + "/" + trash_name(std::string_view(name).substr(kStepPrefix.size()), make_token());
  STOKER_TRY(ops.rename(directory + "/" + name, trash));
  ops.reached("retention.renamed");
  STOKER_TRY(ops.fsync_dir(directory));
  ops.reached("retention.parent_synced");
  return trash;
}

// R3. Unlink the files.  R4. Remove the directory; one that is not empty (NFS keeps files that
// somebody reads) is left for the next sweep.
Status remove_hidden(FileOps& ops, const std::string& path) {
  const Result<std::vector<std::string>> files = ops.list(path);
  if (!files.ok()) return files.status().code() == Code::not_found ? Status() : files.status();
  for (const std::string& file : *files) STOKER_TRY(remove_tree(ops, path + "/" + file));
  ops.reached("retention.unlinked");
  Status removed = ops.rmdir(path);
  if (!removed.ok() && removed.code() != Code::not_found && removed.os_error() != ENOTEMPTY &&
      removed.os_error() != EEXIST)
    return removed;
  ops.reached("retention.removed");
  return {};
}

Status remove_checkpoint(FileOps& ops, const std::string& directory, const std::string& name) {
  STOKER_ASSIGN(const std::string hidden, hide_checkpoint(ops, directory, name));
  return remove_hidden(ops, hidden);
}

RetentionReport hide_unwanted(FileOps& ops, const std::string& directory,
                              const RetentionRules& rules) {
  if (rules.keep_all()) return {};
  const Result<Catalog> catalog = list_checkpoints(ops, directory);
  if (!catalog.ok()) return {.failure = catalog.status()};
  const Result<AllNotes> notes = read_all_notes(ops, directory);
  if (!notes.ok()) return {.failure = notes.status()};
  RetentionReport report;
  for (const std::string& name : choose_removals(*catalog, *notes, rules)) {
    Result<std::string> hidden = hide_checkpoint(ops, directory, name);
    if (!hidden.ok()) {
      report.failure = hidden.status();
      break;
    }
    report.hidden.push_back(*std::move(hidden));
  }
  return report;
}

}  // namespace stoker
