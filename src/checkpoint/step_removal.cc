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
// name back, so none can bring it back half empty.  R3. Unlink the files.  R4. Remove the
// directory; one that is not empty (NFS keeps files that somebody reads) is left for the next
// sweep.
Status remove_checkpoint(FileOps& ops, const std::string& directory, const std::string& name) {
  const std::optional<StepName> parsed = parse_step_name(name);
  if (!parsed) return Status(Code::invalid_argument, name + ": not the name of a checkpoint");
  const std::string trash =
      directory + "/" + trash_name(std::string_view(name).substr(kStepPrefix.size()), make_token());
  STOKER_TRY(ops.rename(directory + "/" + name, trash));
  ops.reached("retention.renamed");
  STOKER_TRY(ops.fsync_dir(directory));
  ops.reached("retention.parent_synced");
  const Result<std::vector<std::string>> files = ops.list(trash);
  if (!files.ok()) return files.status().code() == Code::not_found ? Status() : files.status();
  for (const std::string& file : *files) STOKER_TRY(remove_tree(ops, trash + "/" + file));
  ops.reached("retention.unlinked");
  Status removed = ops.rmdir(trash);
  if (!removed.ok() && removed.code() != Code::not_found && removed.os_error() != ENOTEMPTY &&
      removed.os_error() != EEXIST)
    return removed;
  ops.reached("retention.removed");
  return {};
}

Result<RetentionReport> apply_retention(FileOps& ops, const std::string& directory,
                                        const RetentionRules& rules) {
  RetentionReport report;
  STOKER_ASSIGN(const Catalog catalog, list_checkpoints(ops, directory));
  STOKER_ASSIGN(AllNotes notes, read_all_notes(ops, directory));
  report.damaged_notes = notes.damaged;
  for (const std::string& name : choose_removals(catalog, notes, rules)) {
    STOKER_TRY(remove_checkpoint(ops, directory, name));
    report.removed.push_back(name);
  }
  return report;
}

}  // namespace stoker
