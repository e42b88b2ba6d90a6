#include "dataset/pack/ingest_writer.h"

#include <memory>
#include <numeric>
#include <utility>

#include "dataset/pack/pack_directory.h"
#include "dataset/pack/pack_merge.h"
#include "dataset/pack/pack_part.h"
#include "dataset/pack/pack_shard.h"
#include "formats/table/shard_formats.h"
#include "io/files/directories.h"
#include "io/files/local_path.h"

namespace stoker {
namespace {

Status check_empty(FileOps& ops, const PathAt& directory) {
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(directory));
  for (const std::string& name : names)
    if (!name.starts_with('.'))
      return Status(Code::already_exists,
                    directory.text() + ": not empty (" + name + "); ingest into a new directory");
  return {};
}

}  // namespace

IngestWriter::IngestWriter(FileOps& ops, PathAt directory, std::string format)
    : ops_(ops), directory_(std::move(directory)) {
  job_.hash = "ingest";
  job_.format = std::move(format);
  job_.prefix = "shard";
}

Result<std::unique_ptr<IngestWriter>> IngestWriter::make(FileOps& ops, std::string directory,
                                                         std::string format) {
  STOKER_ASSIGN(const ShardFormat* const written, parse_written_format(format));
  STOKER_TRY(check_local_path(directory));
  STOKER_TRY(make_directories(ops, directory));
  STOKER_ASSIGN(std::shared_ptr<const RootDirectory> root, open_root(ops, directory));
  std::unique_ptr<IngestWriter> writer(
      new IngestWriter(ops, {std::move(root), ""}, std::move(format)));
  writer->writer_.format = written;
  const PathAt& place = writer->directory_;
  STOKER_TRY(check_empty(ops, place));  // before writing into a directory that is not ours
  STOKER_TRY(make_own_directory(ops, place / ".stoker"));
  STOKER_TRY(make_own_directory(ops, pack_parts_directory(place)));
  STOKER_ASSIGN(writer->lock_, internal::lock_pack(ops, place, LockMode::exclusive));
  STOKER_TRY(check_empty(ops, place));  // another process may have been faster
  writer->is_finished_ = false;
  return writer;
}

IngestWriter::~IngestWriter() {
  abandon();
}

void IngestWriter::abandon() {
  if (is_finished_ || !guard_.is_here()) return;
  is_finished_ = true;
  for (std::uint64_t i = 0; i < job_.shard_count; ++i) {
    const std::string name = job_.shard_name(i);
    if (const Result<PackPart> part = read_pack_part(directory_, name); part.ok())
      for (const ManifestFile& file : part->files)
        static_cast<void>(ops_.unlink(directory_ / file.name));
    static_cast<void>(ops_.unlink(directory_ / name));
    remove_pack_part(ops_, directory_, name);
  }
  // Under the lock. Directories that contain other files are kept.
  static_cast<void>(ops_.rmdir(pack_parts_directory(directory_)));
  static_cast<void>(ops_.unlink(directory_ / ".stoker/pack.lock"));
  static_cast<void>(ops_.rmdir(directory_ / ".stoker"));
  lock_ = UniqueFd();
}

Status IngestWriter::begin(const PackInput& input) {
  if (writer_.format->has_columns) {
    STOKER_ASSIGN(writer_.shard.columns, input.mds_columns());
  }
  if (writer_.format->is_array) {
    if (!input.token_dtype())
      return Status(Code::invalid_argument,
                    "format=\"" + job_.format +
                        "\" is for samples of one field, an array; use tar, mds or tfrecord");
    STOKER_TRY(prepare_token_writer(input, writer_));
    job_.dtype = dtype_name(writer_.shard.dtype);
  }
  return {};
}

Status IngestWriter::write_shard(const std::vector<IngestedSample>& samples) {
  if (samples.empty()) return {};
  const MemoryInput input(samples, job_.sample_count);
  if (job_.shard_count == 0) STOKER_TRY(begin(input));
  std::vector<std::uint64_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  STOKER_TRY(pack_shard(ops_, input, writer_,
                        {.directory = directory_,
                         .name = job_.shard_name(job_.shard_count),
                         .plan_hash = job_.hash,
                         .samples = order}));
  job_.shard_count += 1;
  job_.sample_count += samples.size();
  return {};
}

Result<PackReport> IngestWriter::finish() {
  if (job_.shard_count == 0) return Status(Code::invalid_argument, "no samples to ingest");
  STOKER_ASSIGN(PackReport report, internal::merge_locked(ops_, directory_, job_));
  is_finished_ = true;
  lock_ = UniqueFd();
  return report;
}

}  // namespace stoker
