#include "checkpoint/directory/directory_part.h"

#include <utility>

#include "checkpoint/manifest/names.h"
#include "io/files/text_file.h"

namespace stoker {

DirectoryPart::DirectoryPart(CheckpointDirectory directory, StageRequest request)
    : directory_(std::move(directory)),
      request_(std::move(request)),
      place_(directory_.at(request_.staging)),
      files_(request_.files.size()) {}

// Step 1.
Status DirectoryPart::begin() {
  Status made = directory_.ops().mkdir(place_);
  if (!made.ok() && made.code() != Code::already_exists) return made;
  directory_.ops().reached("checkpoint.staged_dir");
  return {};
}

// Step 2, for one file.
Status DirectoryPart::create(std::uint32_t file) {
  File::Options options = request_.file;
  options.is_closed_in_children = true;
  STOKER_ASSIGN(files_[file], File::create(directory_.ops(), place_of(file), options));
  STOKER_TRY(files_[file]->preallocate(request_.files[file].size_bytes));
  directory_.ops().reached("checkpoint.preallocated");
  return {};
}

// Whether the file is unchanged since its commit is checked through its new name: the old name may
// belong to another file by now.
Result<std::optional<FileInfo>> DirectoryPart::reuse(std::uint32_t file,
                                                     const ReuseSource& source) {
  FileOps& ops = directory_.ops();
  const PathAt path = place_of(file);
  // Fails for too many links, another filesystem, no support for links, or a removed parent.
  if (!ops.link(directory_.at(source.step) / source.name, path).ok())
    return std::optional<FileInfo>();
  const Result<FileInfo> info = ops.info_of(path);
  if (info.ok() && source.is_as_committed(*info)) return std::optional<FileInfo>(*info);
  STOKER_TRY(ops.unlink(path));
  return std::optional<FileInfo>();
}

Result<bool> DirectoryPart::submit(const StagedWrite& write) {
  STOKER_ASSIGN(Request request,
                files_[write.file]->plan_write(write.offset_bytes, write.size_bytes, write.memory));
  request.tag = write.tag;
  STOKER_ASSIGN(const std::size_t accepted, request_.engine.submit(std::span(&request, 1)));
  return accepted == 1;
}

Result<std::size_t> DirectoryPart::reap(std::span<Completion> out, std::size_t count_min,
                                        nanoseconds timeout) {
  return request_.engine.reap(out, count_min, timeout);
}

void DirectoryPart::all_written() {
  directory_.ops().reached("checkpoint.written");
}

// Steps 4 and 5, for one file. Committed files are read-only because links share their bytes.
Result<FileInfo> DirectoryPart::finish(std::uint32_t file) {
  FileOps& ops = directory_.ops();
  File& written = *files_[file];
  STOKER_TRY(ops.fchmod(written.buffered_fd(), 0444).with_context(written.path()));
  STOKER_TRY(written.finish(request_.files[file].size_bytes));
  STOKER_TRY(std::move(written).close());
  files_[file].reset();
  ops.reached("checkpoint.synced");
  const Result<FileInfo> info = ops.info_of(place_of(file));
  return info.ok() ? *info : FileInfo();
}

// Steps 6 and 7.
Status DirectoryPart::seal(std::uint32_t rank, const std::string& part_manifest) {
  FileOps& ops = directory_.ops();
  STOKER_TRY(create_durable_file(ops, place_ / part_name(rank), part_manifest, false));
  ops.reached("checkpoint.part_written");
  STOKER_TRY(ops.fsync_dir(place_));
  ops.reached("checkpoint.staging_synced");
  return {};
}

// The kernel still uses the buffers of writes in flight, so they must not be refilled. Nor may a
// descriptor be closed that a thread of the engine is about to use: its number may be reused for
// another file.
void DirectoryPart::abandon(Deadline deadline) {
  Engine& engine = request_.engine;
  if (engine.in_flight() > 0) static_cast<void>(engine.drain(time_left(deadline)));
  if (engine.in_flight() > 0) return;
  for (std::optional<File>& file : files_) {
    if (!file) continue;
    // Closed through FileOps, whose calls have a deadline: close(2) may block as well.
    static_cast<void>(std::move(*std::exchange(file, std::nullopt)).close());
  }
}

}  // namespace stoker
