#include "ingest_writer.h"

#include <filesystem>
#include <numeric>

#include "dataset/pack_merge.h"
#include "dataset/pack_part.h"
#include "dataset/pack_shard.h"
#include "dataset/sample_source.h"
#include "formats/mds_encoding.h"
#include "io/publish.h"

namespace stoker::python {
namespace {

/// The samples of one shard, as pack_shard() wants them.
class MemorySource final : public SampleSource {
 public:
  MemorySource(const std::vector<IngestedSample>& samples, std::uint64_t first)
      : samples_(samples), first_(first) {}

  std::uint64_t sample_count() const noexcept override { return samples_.size(); }
  Result<Extent> extent(std::uint64_t sample) const override {
    Extent extent{.size_bytes = 0, .field_count = samples_[sample].fields.size()};
    for (const auto& field : samples_[sample].fields) extent.size_bytes += field.bytes.size();
    return extent;
  }
  Status read(std::uint64_t sample, SourceSample& out) const override {
    out.view.clear();
    out.view.key = samples_[sample].key;
    for (const auto& field : samples_[sample].fields)
      out.view.fields.push_back({.name = field.name,
                                 .bytes = field.bytes,
                                 .type = field.type,
                                 .dtype = field.dtype,
                                 .shape = field.shape});
    return {};
  }
  std::string describe(std::uint64_t sample) const override {
    return "sample " + std::to_string(first_ + sample) + " ('" + samples_[sample].key + "')";
  }
  Digest128 fingerprint() const override { return {}; }  // planned by nobody, so never compared

  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    std::vector<std::pair<std::string, std::string>> columns;
    SourceSample first;
    STOKER_TRY(read(0, first));
    for (const FieldView& field : first.view.fields) {
      Result<MdsEncoding> encoding = choose_mds_encoding(field);
      if (!encoding.ok())
        return encoding.status().with_context(describe(0) + ": field '" + std::string(field.name) +
                                              "'");
      columns.emplace_back(field.name, encoding->text);
    }
    return columns;
  }
  std::optional<Dtype> token_dtype() const override {
    const std::vector<IngestedSample::Field>& fields = samples_.front().fields;
    if (fields.size() != 1 || fields[0].type != FieldType::array) return std::nullopt;
    const Result<Dtype> dtype = dtype_from_descr(fields[0].dtype);
    return dtype.ok() ? std::optional(*dtype) : std::nullopt;
  }

 private:
  const std::vector<IngestedSample>& samples_;
  const std::uint64_t first_;
};

}  // namespace

IngestWriter::IngestWriter(FileOps& ops, std::string directory, std::string format)
    : ops_(ops), directory_(std::move(directory)) {
  job_.hash = "ingest";
  job_.format = format;
  job_.prefix = "shard";
  writer_.format = std::move(format);
}

Result<std::unique_ptr<IngestWriter>> IngestWriter::make(FileOps& ops, std::string directory,
                                                         std::string format) {
  std::unique_ptr<IngestWriter> writer(
      new IngestWriter(ops, std::move(directory), std::move(format)));
  const std::string& place = writer->directory_;
  std::error_code failed;
  std::filesystem::create_directories(pack_parts_directory(place), failed);
  if (failed) return Status::from_errno(failed.value(), "mkdir", place);
  STOKER_ASSIGN(writer->lock_, internal::lock_pack(ops, place, LockMode::exclusive));
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(place));
  for (const std::string& name : names)
    if (!name.starts_with('.'))
      return Status(Code::already_exists,
                    place + ": not empty (" + name + "); ingest into a new directory");
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
        static_cast<void>(ops_.unlink(directory_ + "/" + file.name));
    static_cast<void>(ops_.unlink(directory_ + "/" + name));
    remove_pack_part(ops_, directory_, name);
  }
  lock_ = UniqueFd();
}

Status IngestWriter::begin(const SampleSource& source) {
  if (writer_.format == "mds") {
    STOKER_ASSIGN(writer_.mds_columns, source.mds_columns());
  }
  if (writer_.format == "tokens") {
    const std::optional<Dtype> dtype = source.token_dtype();
    if (!dtype)
      return Status(Code::invalid_argument,
                    "format=\"tokens\" is for samples of one field, an array; use tar, mds or "
                    "tfrecord");
    writer_.token_dtype = *dtype;
  }
  return {};
}

Status IngestWriter::write_shard(const std::vector<IngestedSample>& samples) {
  if (samples.empty()) return {};
  const MemorySource source(samples, job_.sample_count);
  if (job_.shard_count == 0) STOKER_TRY(begin(source));
  std::vector<std::uint64_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  STOKER_TRY(pack_shard(ops_, source, writer_,
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

}  // namespace stoker::python
