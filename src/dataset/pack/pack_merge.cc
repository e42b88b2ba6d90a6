#include "dataset/pack/pack_merge.h"

#include <fmt/format.h>

#include <memory>
#include <utility>

#include "dataset/index/index.h"
#include "dataset/index/index_store.h"
#include "dataset/pack/field_losses.h"
#include "dataset/pack/pack_directory.h"
#include "dataset/pack/pack_part.h"
#include "dataset/pack/pack_paths.h"
#include "dataset/pack/pack_shard.h"
#include "dataset/shards/dataset_manifest.h"
#include "dataset/shards/shard_source.h"
#include "formats/mds/mds_index.h"
#include "formats/table/shard_formats.h"
#include "formats/webdataset/webdataset_names.h"
#include "io/files/directories.h"
#include "io/files/publish.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr std::size_t kExtraBytesMax = std::size_t{256} << 20;

Status publish_text(FileOps& ops, const PathAt& path, std::string_view text) {
  return publish_file(ops, path, std::as_bytes(std::span(text)));
}

Result<std::vector<PackPart>> read_parts(FileOps& ops, const PathAt& directory,
                                         const PackJob& job) {
  std::vector<PackPart> parts;
  std::uint64_t missing = 0;
  std::string first_missing;
  for (std::uint64_t i = 0; i < job.shard_count; ++i) {
    const std::string name = job.shard_name(i);
    Result<PackPart> part = read_pack_part(directory, name);
    if (!part.ok() && part.status().code() != Code::not_found) return part.status();
    bool is_packed = part.ok() && part->plan_hash == job.hash;
    if (is_packed) {
      STOKER_ASSIGN(is_packed, is_part_complete(ops, directory, *part));
    }
    if (!is_packed) {
      if (missing++ == 0) first_missing = name;
      continue;
    }
    parts.push_back(*std::move(part));
  }
  if (missing != 0)
    return Status(Code::unavailable,
                  fmt::format("{}: {} of {} shards are not packed yet, the first is {}; run the "
                              "tasks that have them, then merge again",
                              directory.text(), missing, job.shard_count, first_missing));
  return parts;
}

Status publish_mds_index(FileOps& ops, const PathAt& directory,
                         const std::vector<PackPart>& parts) {
  std::vector<MdsShard> shards;
  for (const PackPart& part : parts) {
    STOKER_ASSIGN(std::vector<MdsShard> one, parse_mds_index(part.mds_index));
    shards.insert(shards.end(), one.begin(), one.end());
  }
  return publish_text(ops, directory / "index.json", format_mds_index(shards));
}

/// Options to open the shards of a job. For arrays whose files do not store format and dtype, the
/// job has them.
Result<ShardSourceOptions> source_options(const PackJob& job) {
  ShardSourceOptions options;
  STOKER_ASSIGN(const ShardFormat* const format, parse_written_format(job.format));
  if (!format->lacks_dtype) return options;
  options.format = job.format;
  STOKER_ASSIGN(options.dtype, parse_dtype(job.dtype));
  return options;
}

/// Publishes the index that ShardDataset looks for, with a checksum per sample.
Result<std::string> publish_index(FileOps& ops, const PathAt& directory, const PackJob& job,
                                  const std::vector<PackPart>& parts) {
  STOKER_ASSIGN(const ShardSourceOptions options, source_options(job));
  STOKER_ASSIGN(const std::unique_ptr<ShardSource> source,
                open_shards({&directory.text(), 1}, options));
  const std::vector<ShardFile>& shards = source->shards();
  if (shards.size() != parts.size())
    return Status(
        Code::already_exists,
        directory.text() + ": contains shards that are not from this job; move them away");
  IndexWriter writer(std::string(source->format()), true);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const std::string& name = parts[i].shard.file.name;
    if (shards[i].name != name)
      return Status(Code::already_exists, shards[i].path + ": not from this job; move it away");
    STOKER_ASSIGN(const Index part, Index::open(pack_part_index(directory, name)));
    writer.add_shard(name, shards[i].size_bytes, shards[i].size_bytes, shards[i].mtime_ns);
    for (std::uint64_t k = 0; k < part.sample_count(); ++k) {
      STOKER_ASSIGN(const SampleLocation at, part.locate(k));
      STOKER_TRY(writer.add_sample(at.record, at.crc32c));
    }
  }
  STOKER_TRY(publish_file(ops, directory / ".stoker" / index_name(*source), writer.finish()));
  return std::string(source->format());
}

Result<ManifestFile> describe_file(const PathAt& directory, const std::string& name) {
  STOKER_ASSIGN(const std::string text, read_own_file(directory / name, kExtraBytesMax));
  ManifestFile file{.name = name, .size_bytes = text.size()};
  STOKER_ASSIGN(file.sha256, sha256(std::as_bytes(std::span(text))));
  return file;
}

/// Whether a reader without the manifest gives the field this type.
bool is_implied(std::string_view name, FieldType type) {
  return type == (is_integer_extension(name) ? FieldType::int64 : type_of_extension(name));
}

/// The common types of the fields of all shards, without those that names imply; none if a shard
/// did not record them.
FieldTypes join_types(const std::vector<PackPart>& parts) {
  FieldTypes types;
  for (const PackPart& part : parts) {
    if (!part.types) return {};
    for (const auto& [name, type] : *part.types) add_field_type(types, name, type);
  }
  std::erase_if(types, [](const auto& type) {
    return type.second == FieldType::bytes || is_implied(type.first, type.second);
  });
  return types.size() > kTypedFieldsMax ? FieldTypes() : types;
}

}  // namespace

namespace internal {

// The manifest is written last, after all other files: a directory that has one is complete.
Result<PackReport> merge_locked(FileOps& ops, const PathAt& directory, const PackJob& job) {
  STOKER_ASSIGN(const std::vector<PackPart> parts, read_parts(ops, directory, job));
  Manifest manifest;
  manifest.created_by = std::string("stoker ") + kVersion;
  std::vector<std::string> extra_files = job.extra_files;
  STOKER_ASSIGN(const ShardFormat* const format, parse_written_format(job.format));
  if (format->has_index_json) {
    STOKER_TRY(publish_mds_index(ops, directory, parts));
    extra_files.emplace_back("index.json");
  }
  STOKER_ASSIGN(manifest.format, publish_index(ops, directory, job, parts));
  if (format->lacks_dtype) manifest.dtype = job.dtype;
  manifest.types = join_types(parts);
  for (const PackPart& part : parts) {
    manifest.shards.push_back(part.shard);
    manifest.files.insert(manifest.files.end(), part.files.begin(), part.files.end());
  }
  for (const std::string& name : extra_files) {
    STOKER_ASSIGN(ManifestFile file, describe_file(directory, name));
    manifest.files.push_back(std::move(file));
  }
  if (manifest.sample_count() != job.sample_count)
    return Status(Code::corrupt, directory.text() +
                                     ": the shards have another number of samples than planned; "
                                     "remove the directory and pack again");
  STOKER_TRY(publish_manifest(ops, directory, manifest));
  remove_parts(ops, directory, job);
  PackReport report = report_of(manifest);
  report.shards_found = 0;
  for (const PackPart& part : parts) add_losses(report.losses, part.losses);
  return report;
}

}  // namespace internal

Result<PackReport> merge_pack(FileOps& ops, const std::string& directory) {
  STOKER_ASSIGN(std::shared_ptr<const RootDirectory> root, open_root(ops, directory));
  const PathAt place(std::move(root), "");
  const Result<PackJob> job = read_pack_job(place);
  if (!job.ok() && job.status().code() == Code::not_found)
    return Status(Code::not_found, directory +
                                       ": nothing to merge; pack into it first, with "
                                       "--task I/N");
  STOKER_TRY(job.status());
  STOKER_ASSIGN(const UniqueFd lock, internal::lock_pack(ops, place, LockMode::exclusive));
  Result<PackReport> finished = internal::find_finished(ops, place, *job);
  if (finished.ok() || finished.status().code() != Code::not_found) return finished;
  return internal::merge_locked(ops, place, *job);
}

}  // namespace stoker
