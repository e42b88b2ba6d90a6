#include "dataset/pack/pack_session.h"

#include <cerrno>
#include <memory>
#include <set>
#include <utility>

#include "dataset/pack/field_losses.h"
#include "dataset/pack/pack_directory.h"
#include "dataset/pack/pack_merge.h"
#include "dataset/pack/pack_part.h"
#include "dataset/pack/pack_paths.h"
#include "dataset/pack/shard_output.h"
#include "dataset/shards/shard_source.h"
#include "formats/table/shard_formats.h"
#include "io/files/directories.h"
#include "io/files/publish.h"

namespace stoker {
namespace {

/// Removes what killed runs left under private names: all of it if `own` is null, which requires
/// that no other process works in the directory, else only the files of `own`.
Status remove_staged(FileOps& ops, const PathAt& directory,
                     const std::set<std::string, std::less<>>* own) {
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops.list_names(directory));
  for (const DirectoryName& found : names) {
    const std::string_view target = final_name_of_staged(found.name);
    if (target.empty() || (own != nullptr && !own->contains(target))) continue;
    if (found.kind == FileKind::directory) continue;  // not from pack
    STOKER_TRY(ops.unlink(directory / found.name));
  }
  return {};
}

/// Fails if `directory` is a mount point: FileOps::unlink does not remove files there, so what a
/// killed run left would stay and block the next run.
Status refuse_mounted(FileOps& ops, const PathAt& directory) {
  // There is no directory of that name: the call is made only to see whether it returns EXDEV.
  if (ops.rmdir(directory / "pack.lock").os_error() != EXDEV) return {};
  return Status(Code::invalid_argument,
                directory.text() +
                    ": something is mounted there, and pack has to remove files from it; unmount "
                    "it, or pack into another directory");
}

/// `already_exists` if the directory has no pack job, but files that are not hidden.
Status refuse_others(FileOps& ops, const PathAt& directory) {
  const Result<PackJob> found = read_pack_job(directory);
  if (found.status().code() != Code::not_found) return {};  // claim_directory() checks the job
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(directory));
  for (const std::string& name : names)
    if (!name.starts_with('.'))
      return Status(Code::already_exists,
                    directory.text() + ": not empty (" + name + "); pack into a new directory");
  return {};
}

/// Checks that the job on disk is this one, or publishes it if the directory has none and is empty.
Status claim_directory(FileOps& ops, const PathAt& directory, const PackJob& job) {
  const Result<PackJob> found = read_pack_job(directory);
  if (found.ok() && *found == job) return {};
  if (found.ok())
    return Status(Code::already_exists,
                  directory.text() +
                      ": belongs to another pack job (other source files or options); use "
                      "the same again, or another directory");
  if (found.status().code() != Code::not_found) return found.status();
  STOKER_TRY(refuse_others(ops, directory));
  STOKER_TRY(publish_pack_job(ops, directory, job));
  STOKER_ASSIGN(const PackJob published, read_pack_job(directory));
  if (published == job) return {};
  return Status(Code::already_exists,
                directory.text() + ": another task has begun with other source files or options");
}

Result<PackWriterOptions> writer_options(const PackInput& input, const PackPlanOptions& options) {
  STOKER_ASSIGN(const ShardFormat* const format, parse_written_format(options.format));
  PackWriterOptions writer{.format = format, .shard = {.size_limit_bytes = options.shard_bytes}};
  if (format->has_columns) {
    STOKER_ASSIGN(writer.shard.columns, input.mds_columns());
  }
  if (format->is_array) STOKER_TRY(prepare_token_writer(input, writer));
  return writer;
}

/// The shards of a task, ascending.
std::vector<std::uint64_t> shards_of(std::uint64_t shard_count, const PackOptions& options,
                                     TaskShare share) {
  std::vector<std::uint64_t> shards;
  if (share == TaskShare::every_nth) {
    for (std::uint64_t i = options.task; i < shard_count; i += options.task_count)
      shards.push_back(i);
    return shards;
  }
  // The first `rest` tasks have one more shard. Avoids a product that could overflow.
  const std::uint64_t each = shard_count / options.task_count;
  const std::uint64_t rest = shard_count % options.task_count;
  const std::uint64_t first = options.task * each + std::min(options.task, rest);
  const std::uint64_t count = each + (options.task < rest ? 1 : 0);
  for (std::uint64_t i = 0; i < count; ++i) shards.push_back(first + i);
  return shards;
}

}  // namespace

Result<std::unique_ptr<PackSession>> PackSession::open(FileOps& ops, const PackInput& input,
                                                       const std::string& directory,
                                                       const PackOptions& options,
                                                       TaskShare share) {
  if (options.task_count == 0 || options.task >= options.task_count)
    return Status(Code::invalid_argument, "--task I/N: I counts from 0 to N - 1");
  if (input.sample_count() == 0) return Status(Code::invalid_argument, "no samples to pack");
  STOKER_ASSIGN(PackPlan plan, make_pack_plan(input, options.plan));
  STOKER_ASSIGN(PackWriterOptions writer, writer_options(input, options.plan));
  const Status seen = ops.info_of(directory).status();
  const bool is_new = seen.code() == Code::not_found;
  if (!is_new) STOKER_TRY(seen);
  STOKER_TRY(make_directories(ops, directory));
  STOKER_ASSIGN(std::shared_ptr<const RootDirectory> root, open_root(ops, directory));
  std::unique_ptr<PackSession> session(
      new PackSession(ops, {std::move(root), ""}, std::move(plan), std::move(writer)));
  session->shards_ = shards_of(session->plan_.job.shard_count, options, share);
  session->is_alone_ = options.task_count == 1;
  if (is_new) session->made_ = directory;
  STOKER_TRY(session->claim(input));
  return session;
}

Status PackSession::claim(const PackInput& input) {
  STOKER_TRY(refuse_others(ops_, directory_));  // before anything is written to it
  STOKER_TRY(make_own_directory(ops_, directory_ / ".stoker"));
  STOKER_TRY(refuse_mounted(ops_, directory_ / ".stoker"));
  STOKER_ASSIGN(lock_, internal::lock_pack(ops_, directory_,
                                           is_alone_ ? LockMode::exclusive : LockMode::shared));
  // Before anything is staged: in a container the process may have the same PID as the killed one.
  if (is_alone_) STOKER_TRY(remove_staged(ops_, directory_ / ".stoker", nullptr));
  STOKER_TRY(claim_directory(ops_, directory_, plan_.job));
  Result<PackReport> finished = internal::find_finished(ops_, directory_, plan_.job);
  Status outcome = finished.status();
  if (outcome.ok()) finished_ = *std::move(finished);
  if (outcome.code() != Code::not_found) return outcome;
  STOKER_TRY(make_own_directory(ops_, pack_parts_directory(directory_)));
  if (is_alone_) {
    STOKER_TRY(remove_staged(ops_, directory_, nullptr));
    STOKER_TRY(remove_staged(ops_, pack_parts_directory(directory_), nullptr));
  } else {
    std::set<std::string, std::less<>> own;
    for (const std::uint64_t i : shards_)
      for (const std::string& name : {plan_.job.shard_name(i), plan_.job.sidecar_name(i)})
        own.insert(name);
    STOKER_TRY(remove_staged(ops_, directory_, &own));
  }
  for (const auto& [name, text] : input.extra_files()) {
    const PathAt path = directory_ / name;
    const Result<std::string> found = read_own_file(path, text.size());
    if (found.ok() && *found == text) continue;  // published by another task
    STOKER_TRY(publish_file(ops_, path, std::as_bytes(std::span(text))));
  }
  return {};
}

void PackSession::withdraw() {
  if (!is_alone_ || finished_ || !lock_) return;
  // If any shard is packed, its part is in this directory, and rmdir fails.
  if (!ops_.rmdir(pack_parts_directory(directory_)).ok()) return;
  for (const std::string& name : plan_.job.extra_files)
    static_cast<void>(ops_.unlink(directory_ / name));
  remove_pack_job(ops_, directory_);
  static_cast<void>(ops_.unlink(directory_ / ".stoker/pack.lock"));
  static_cast<void>(ops_.rmdir(directory_ / ".stoker"));
  if (!made_.empty()) static_cast<void>(ops_.rmdir(made_));  // stays if it is not empty
  lock_ = UniqueFd();
}

Result<PackReport> PackSession::close(std::uint64_t found) {
  if (is_alone_) {
    STOKER_ASSIGN(PackReport report, internal::merge_locked(ops_, directory_, plan_.job));
    report.shards_found = found;
    lock_ = UniqueFd();
    return report;
  }
  PackReport report{.format = plan_.job.format,
                    .shard_count = shards_.size(),
                    .sample_count = 0,
                    .size_bytes = 0,
                    .shards_found = found,
                    .is_complete = false};
  for (const std::uint64_t i : shards_) {
    STOKER_ASSIGN(const PackPart part, read_pack_part(directory_, plan_.job.shard_name(i)));
    report.sample_count += part.shard.sample_count;
    report.size_bytes += part.shard.file.size_bytes;
    add_losses(report.losses, part.losses);
  }
  lock_ = UniqueFd();
  return report;
}

}  // namespace stoker
