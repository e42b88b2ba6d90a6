#include "dataset/pack/pack_session.h"

#include <cerrno>
#include <memory>
#include <set>
#include <utility>

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

/// Removes what killed runs left under private names: all of it if nobody else may be at work, else
/// that of our own shards.
Status remove_staged(FileOps& ops, const PathAt& directory,
                     const std::set<std::string, std::less<>>* own) {
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops.list_names(directory));
  for (const DirectoryName& found : names) {
    const std::string_view target = final_name_of_staged(found.name);
    if (target.empty() || (own != nullptr && !own->contains(target))) continue;
    if (found.kind == FileKind::directory) continue;  // none of ours
    STOKER_TRY(ops.unlink(directory / found.name));
  }
  return {};
}

/// What is mounted in a directory is not removed with it (FileOps::unlink): what a killed run left
/// there would stay, and stop the next one.
Status refuse_mounted(FileOps& ops, const PathAt& directory) {
  // No directory has that name: it is asked for the sake of EXDEV.
  if (ops.rmdir(directory / "pack.lock").os_error() != EXDEV) return {};
  return Status(Code::invalid_argument,
                directory.text() +
                    ": something is mounted there, and pack has to remove files from it; unmount "
                    "it, or pack into another directory");
}

/// A directory without a pack job has nothing in it but hidden files.
Status refuse_others(FileOps& ops, const PathAt& directory) {
  const Result<PackJob> found = read_pack_job(directory);
  if (found.status().code() != Code::not_found) return {};  // who claims it looks at the job
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(directory));
  for (const std::string& name : names)
    if (!name.starts_with('.'))
      return Status(Code::already_exists,
                    directory.text() + ": not empty (" + name + "); pack into a new directory");
  return {};
}

/// The job on disk is ours, or there is none and the directory is empty.
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

Result<PackWriterOptions> writer_options(const PackInput& source, const PackPlanOptions& options) {
  STOKER_ASSIGN(const ShardFormat* const format, parse_written_format(options.format));
  PackWriterOptions writer{.format = format, .shard = {.size_limit_bytes = options.shard_bytes}};
  if (format->has_columns) {
    STOKER_ASSIGN(writer.shard.columns, source.mds_columns());
  }
  if (format->is_array) STOKER_TRY(prepare_token_writer(source, writer));
  return writer;
}

/// Shard `shard_count` * task / task_count is the first of a task's run.
std::vector<std::uint64_t> shards_of(std::uint64_t shard_count, const PackOptions& options,
                                     TaskShare share) {
  std::vector<std::uint64_t> shards;
  if (share == TaskShare::every_nth) {
    for (std::uint64_t i = options.task; i < shard_count; i += options.task_count)
      shards.push_back(i);
    return shards;
  }
  // Without a product that could overflow: the first `rest` tasks have one shard more.
  const std::uint64_t each = shard_count / options.task_count;
  const std::uint64_t rest = shard_count % options.task_count;
  const std::uint64_t first = options.task * each + std::min(options.task, rest);
  const std::uint64_t count = each + (options.task < rest ? 1 : 0);
  for (std::uint64_t i = 0; i < count; ++i) shards.push_back(first + i);
  return shards;
}

}  // namespace

Result<std::unique_ptr<PackSession>> PackSession::open(FileOps& ops, const PackInput& source,
                                                       const std::string& directory,
                                                       const PackOptions& options,
                                                       TaskShare share) {
  if (options.task_count == 0 || options.task >= options.task_count)
    return Status(Code::invalid_argument, "--task I/N: I counts from 0 to N - 1");
  if (source.sample_count() == 0) return Status(Code::invalid_argument, "no samples to pack");
  STOKER_ASSIGN(PackPlan plan, make_pack_plan(source, options.plan));
  STOKER_ASSIGN(PackWriterOptions writer, writer_options(source, options.plan));
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
  STOKER_TRY(session->claim(source));
  return session;
}

Status PackSession::claim(const PackInput& source) {
  STOKER_TRY(refuse_others(ops_, directory_));  // before anything is left in it
  STOKER_TRY(make_own_directory(ops_, directory_ / ".stoker"));
  STOKER_TRY(refuse_mounted(ops_, directory_ / ".stoker"));
  STOKER_ASSIGN(lock_, internal::lock_pack(ops_, directory_,
                                           is_alone_ ? LockMode::exclusive : LockMode::shared));
  // Before anything is staged: in a container a process has the number of the one that was killed.
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
  for (const auto& [name, text] : source.extra_files()) {
    const PathAt path = directory_ / name;
    const Result<std::string> found = read_own_file(path, text.size());
    if (found.ok() && *found == text) continue;  // another task was here
    STOKER_TRY(publish_file(ops_, path, std::as_bytes(std::span(text))));
  }
  return {};
}

void PackSession::withdraw() {
  if (!is_alone_ || finished_ || !lock_) return;
  // Each packed shard has a part in there: then the directory is not empty, and stays.
  if (!ops_.rmdir(pack_parts_directory(directory_)).ok()) return;
  for (const std::string& name : plan_.job.extra_files)
    static_cast<void>(ops_.unlink(directory_ / name));
  remove_pack_job(ops_, directory_);
  static_cast<void>(ops_.unlink(directory_ / ".stoker/pack.lock"));
  static_cast<void>(ops_.rmdir(directory_ / ".stoker"));
  if (!made_.empty()) static_cast<void>(ops_.rmdir(made_));  // stays if others have come
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
  }
  lock_ = UniqueFd();
  return report;
}

}  // namespace stoker
