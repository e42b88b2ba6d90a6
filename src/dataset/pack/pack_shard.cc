#include "dataset/pack/pack_shard.h"

#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/pack/pack_prefetch.h"
#include "formats/table/shard_formats.h"
#include "formats/webdataset/webdataset_names.h"

namespace stoker {
namespace {

/// Returns what exists at a path, without following links; nothing if it does not exist.
Result<std::optional<FileInfo>> look_at(FileOps& ops, const PathAt& path) {
  const Result<FileInfo> info = ops.info_of(path);
  if (info.ok()) return std::optional<FileInfo>(*info);
  if (info.status().code() != Code::not_found) return info.status();
  return std::optional<FileInfo>();
}

Status unlink_if_there(FileOps& ops, const PathAt& path) {
  const Status status = ops.unlink(path);
  return status.code() == Code::not_found ? Status() : status;
}

/// Adds the records of an MDS shard, whose offsets are known only after the last sample; it writes
/// only then.
Status add_mds_records(const PackWriter& writer, std::span<const std::uint64_t> sizes,
                       RecordChecksums& checksums) {
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) total += size;
  std::uint64_t at = writer.mds->size_bytes() - total;
  for (const std::uint64_t size : sizes) {
    STOKER_TRY(checksums.add({at, size}));
    at += size;
  }
  return {};
}

struct StagedSidecar {
  PathAt path;
  std::unique_ptr<ShardOutput> output;
};

Result<std::vector<StagedSidecar>> stage_sidecars(FileOps& ops, const ShardPacker::Options& shard,
                                                  std::span<const ShardWriter::Sidecar> sidecars,
                                                  PackPart& part) {
  std::vector<StagedSidecar> staged;
  for (const ShardWriter::Sidecar& sidecar : sidecars) {
    const std::string name = std::filesystem::path(shard.name).stem().string() + sidecar.suffix;
    const PathAt path = shard.directory / name;
    STOKER_ASSIGN(std::unique_ptr<ShardOutput> output, ShardOutput::make(ops, path));
    STOKER_TRY(output->write(sidecar.bytes));
    STOKER_TRY(output->sync());
    part.files.push_back(
        {.name = name, .size_bytes = output->size_bytes(), .sha256 = output->sha256()});
    staged.push_back({.path = path, .output = std::move(output)});
  }
  return staged;
}

/// Step 3. On failure, removes the files that already have their final names.
Status publish_all(FileOps& ops, const PathAt& path, ShardOutput& shard,
                   std::span<const StagedSidecar> sidecars) {
  STOKER_TRY(shard.publish());
  for (std::size_t i = 0; i < sidecars.size(); ++i) {
    Status status = sidecars[i].output->publish();
    if (status.ok()) continue;
    for (std::size_t k = 0; k < i; ++k) static_cast<void>(ops.unlink(sidecars[k].path));
    static_cast<void>(ops.unlink(path));
    return status;
  }
  return {};
}

/// Whether a reader that takes the text for an integer, because of its name, loses nothing: not
/// "007".
bool is_integer_text(const FieldView& field) {
  if (!is_integer_extension(field.name)) return false;
  const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()),
                              field.bytes.size());
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && std::to_string(value) == text;
}

}  // namespace

Result<std::unique_ptr<ShardPacker>> ShardPacker::make(FileOps& ops,
                                                       const PackWriterOptions& writer,
                                                       Options options) {
  std::unique_ptr<ShardPacker> packer(new ShardPacker(ops, *writer.format, std::move(options)));
  const PathAt path = packer->options_.directory / packer->options_.name;
  STOKER_ASSIGN(packer->output_, ShardOutput::make(ops, path));
  STOKER_ASSIGN(packer->writer_, make_pack_writer(writer, packer->options_.name, *packer->output_));
  packer->output_->checksums().skip_head();
  return packer;
}

Status ShardPacker::append(SampleView& sample) {
  given_.assign(sample.fields.begin(), sample.fields.end());
  STOKER_TRY(fit_fields(format_, sample));
  STOKER_TRY(writer_.writer->append(sample));
  if (types_) add_types(sample, given_);
  for (std::size_t i = 0; i < given_.size(); ++i) add_losses(losses_, given_[i], sample.fields[i]);
  if (writer_.mds == nullptr) return output_->checksums().add(writer_.writer->last_record());
  sizes_.push_back(writer_.mds->last_record().size_bytes);
  return {};
}

/// Records the types that the fields of a sample had before they were converted.
void ShardPacker::add_types(const SampleView& sample, std::span<const FieldView> given) {
  for (std::size_t i = 0; i < given.size(); ++i) {
    const FieldView& field = sample.fields[i];
    const FieldType type = given[i].type;
    if (field.is_implied || (type == FieldType::text && is_integer_text(field))) continue;
    // Several numbers, and arrays, are a NumPy file now.
    const bool is_file = type != FieldType::bytes && field.type == FieldType::bytes;
    add_field_type(*types_, field.name, is_file ? FieldType::array : type);
  }
  if (types_->size() > kTypedFieldsMax) types_.reset();
}

Status ShardPacker::finish() {
  if (writer_.mds != nullptr) STOKER_TRY(add_mds_records(writer_, sizes_, output_->checksums()));
  const std::uint64_t sample_count = writer_.writer->sample_count();
  STOKER_ASSIGN(const std::vector<ShardWriter::Sidecar> sidecars, writer_.writer->finish());
  STOKER_TRY(output_->sync());
  PackPart part{
      .plan_hash = options_.plan_hash,
      .shard = {.file = {.name = options_.name,
                         .size_bytes = output_->size_bytes(),
                         .sha256 = output_->sha256()},
                .sample_count = sample_count},
      .files = {},
      .types = types_,
      .losses = losses_,
      .mds_index = writer_.mds != nullptr ? format_mds_index({writer_.mds->shard()}) : ""};
  STOKER_ASSIGN(const std::vector<StagedSidecar> staged,
                stage_sidecars(ops_, options_, sidecars, part));
  STOKER_ASSIGN(const std::vector<std::uint32_t> checksums, output_->checksums().finish());
  STOKER_TRY(
      publish_pack_part(ops_, options_.directory, part, output_->checksums().records(), checksums));
  return publish_all(ops_, options_.directory / options_.name, *output_, staged);
}

Status pack_shard(FileOps& ops, const PackInput& input, const PackWriterOptions& options,
                  const ShardJob& job) {
  STOKER_ASSIGN(const std::unique_ptr<ShardPacker> packer,
                ShardPacker::make(
                    ops, options,
                    {.directory = job.directory, .name = job.name, .plan_hash = job.plan_hash}));
  SamplePrefetch samples(input, job.samples, job.reader_count);
  InputSample sample;
  for (const std::uint64_t number : job.samples) {
    if (job.stop.stop_requested()) return Status(Code::cancelled, "stopped while packing");
    STOKER_TRY(samples.next(sample));
    if (Status status = packer->append(sample.view); !status.ok())
      return status.code() == Code::invalid_argument ? status.with_context(input.describe(number))
                                                     : status;
    if (job.on_sample) {
      std::uint64_t size_bytes = 0;
      for (const FieldView& field : sample.view.fields) size_bytes += field.bytes.size();
      job.on_sample(size_bytes);
    }
  }
  return packer->finish();
}

Result<bool> is_part_complete(FileOps& ops, const PathAt& directory, const PackPart& part) {
  std::vector<ManifestFile> files = part.files;
  files.push_back(part.shard.file);
  for (const ManifestFile& file : files) {
    STOKER_ASSIGN(const std::optional<FileInfo> info, look_at(ops, directory / file.name));
    if (!info || info->kind != FileKind::regular || info->size_bytes != file.size_bytes)
      return false;
  }
  return true;
}

Result<bool> is_shard_finished(FileOps& ops, const PathAt& directory, const std::string& name,
                               const std::string& plan_hash) {
  const PathAt path = directory / name;
  const Result<PackPart> part = read_pack_part(directory, name);
  if (!part.ok() || part->plan_hash != plan_hash) {
    STOKER_ASSIGN(const std::optional<FileInfo> found, look_at(ops, path));
    if (!found) return false;
    return Status(Code::already_exists,
                  path.text() + ": it exists, but this job has not finished it; move it away");
  }
  STOKER_ASSIGN(const bool is_complete, is_part_complete(ops, directory, *part));
  if (is_complete) return true;
  // The earlier run was killed, or failed, between the renames of step 3. The part proves that the
  // files are from this job.
  STOKER_TRY(unlink_if_there(ops, path));
  for (const ManifestFile& file : part->files)
    STOKER_TRY(unlink_if_there(ops, directory / file.name));
  return false;
}

}  // namespace stoker
