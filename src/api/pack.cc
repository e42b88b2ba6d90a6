#include "stoker/pack.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "api/border.h"
#include "base/fork_guard.h"
#include "dataset/input/import_kind.h"
#include "dataset/input/input.h"
#include "dataset/input/input_memory.h"
#include "dataset/pack/field_losses.h"
#include "dataset/pack/ingest_writer.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/pack_paths.h"
#include "dataset/pack/verify.h"
#include "formats/json/strict_json.h"
#include "formats/utf8.h"
#include "io/files/local_path.h"
#include "stoker/verify.h"

namespace stoker {
using internal::invalid;

namespace {

Status check_kind(const std::string& source, const std::string& kind) {
  const std::string found = kind.empty() ? import_kind_of(source) : kind;
  if (std::ranges::find(import_kinds(), found) == import_kinds().end()) return {};
  return {Code::unsupported, source + ": " + found + " is packed by the command: stoker pack"};
}

Result<PackReport> pack_into(const std::string& source, const std::string& directory,
                             const PackFilesOptions& options) {
  STOKER_TRY(check_kind(source, options.kind));
  STOKER_TRY(check_local_path(directory));
  STOKER_TRY(check_apart(source, directory));
  PackInputOptions input_options{.kind = options.kind,
                                 .dtype = options.dtype,
                                 .sequence_length = options.sequence_length,
                                 .excluded_directory = directory,
                                 .with_hidden = options.has_hidden,
                                 .classes = options.classes};
  // For tokens, the source is a directory of arrays, not of files to store unchanged.
  if (options.kind.empty() && is_token_format(options.format)) input_options.kind = "tokens";
  const auto tell = [&](const std::vector<std::string>& remarks) {
    if (!options.on_remark) return;
    for (const std::string& remark : remarks) options.on_remark(remark);
  };
  STOKER_ASSIGN(const std::unique_ptr<PackInput> input, open_input(source, input_options));
  tell(remarks_on(*input));
  STOKER_ASSIGN(PackReport report, pack(posix_file_ops(), *input, directory,
                                        {.plan = {.format = options.format,
                                                  .samples_per_shard = options.samples_per_shard,
                                                  .shard_bytes = options.shard_bytes,
                                                  .shuffle_seed = options.shuffle_seed,
                                                  .prefix = options.prefix},
                                         .task = options.task,
                                         .task_count = options.task_count,
                                         .thread_count = options.thread_count,
                                         .progress = options.progress,
                                         .stop = options.stop}));
  tell(remarks_on(report.losses));
  return report;
}

std::string default_key(std::uint64_t number) {
  std::array<char, 24> text = {};
  std::snprintf(text.data(), text.size(), "%09llu", static_cast<unsigned long long>(number));
  return text.data();
}

Status check_array(const FieldView& field) {
  STOKER_ASSIGN(const Dtype dtype, dtype_from_descr(field.dtype));
  std::uint64_t rest = field.bytes.size();  // divided by each dimension, so that nothing overflows
  bool fits = rest % dtype_size_bytes(dtype) == 0;
  rest /= dtype_size_bytes(dtype);
  const bool is_empty = std::ranges::find(field.shape, std::uint64_t{0}) != field.shape.end();
  for (const std::uint64_t length : field.shape) {
    if (length == 0) break;
    fits = fits && rest % length == 0;
    rest /= length;
  }
  if (is_empty ? field.bytes.empty() : fits && rest == 1) return {};
  return invalid(std::to_string(field.bytes.size()) + " bytes of " +
                 std::string(dtype_name(dtype)) + " are not an array of its shape");
}

/// What the writers of formats take for granted.
Status check_value(const FieldView& field) {
  const std::string_view text(reinterpret_cast<const char*>(field.bytes.data()),
                              field.bytes.size());
  switch (field.type) {
    case FieldType::bytes: return {};
    case FieldType::text: return is_utf8(text) ? Status() : invalid("is not UTF-8");
    case FieldType::json: return is_utf8(text) && is_json(text) ? Status() : invalid("is not JSON");
    case FieldType::int64:
    case FieldType::float64:
      return text.size() == 8 ? Status() : invalid("one number of 64 bits; give more as an array");
    case FieldType::float32: return invalid("float32: give it as a float64, or as an array");
    case FieldType::array: return check_array(field);
  }
  return invalid("has no known type");
}

}  // namespace

Result<PackReport> pack_files(const std::string& source, const std::string& directory,
                              const PackFilesOptions& options) {
  return internal::at_border([&] { return pack_into(source, directory, options); });
}

Result<PackReport> merge_pack(const std::string& directory) {
  return internal::at_border([&] { return merge_pack(posix_file_ops(), directory); });
}

Result<VerifyReport> verify_dataset(const std::string& directory, const VerifyOptions& options) {
  return internal::at_border([&] { return verify_shards(directory, options); });
}

class DatasetWriter::Impl {
 public:
  Impl(std::unique_ptr<IngestWriter> writer, const DatasetWriterOptions& options)
      : writer_(std::move(writer)),
        samples_per_shard_(options.samples_per_shard),
        shard_bytes_(options.shard_bytes) {}

  std::uint64_t size() const noexcept { return size_; }

  Status write(std::string_view key, std::span<const FieldView> fields) {
    STOKER_TRY(check_usable());
    failed_ = true;  // until it is done
    IngestedSample& sample = samples_.emplace_back();
    sample.key = key.empty() ? default_key(size_) : std::string(key);
    std::vector<std::byte>& memory = memory_.emplace_back();
    STOKER_TRY(copy(fields, sample, memory).with_context(sample.describe(size_)));
    size_ += 1;
    bytes_ += memory.size();
    if (samples_.size() == samples_per_shard_ || (shard_bytes_ > 0 && bytes_ >= shard_bytes_))
      STOKER_TRY(flush());
    failed_ = false;
    return {};
  }

  Result<PackReport> commit() {
    STOKER_TRY(check_usable());
    failed_ = true;
    STOKER_TRY(flush());
    return writer_->finish();
  }

 private:
  Status check_usable() const {
    STOKER_TRY(guard_.check("a DatasetWriter"));
    return failed_ ? invalid("this DatasetWriter has failed, or was committed: make another")
                   : Status();
  }

  static Status copy(std::span<const FieldView> fields, IngestedSample& sample,
                     std::vector<std::byte>& memory) {
    std::size_t size_bytes = 0;
    for (const FieldView& field : fields) {
      STOKER_TRY(check_value(field).with_context("field '" + std::string(field.name) + "'"));
      size_bytes += field.bytes.size();
    }
    memory.reserve(size_bytes);  // views of it stay valid
    for (const FieldView& field : fields) {
      const std::size_t begin = memory.size();
      memory.insert(memory.end(), field.bytes.begin(), field.bytes.end());
      const bool is_array = field.type == FieldType::array;
      sample.fields.push_back(
          {.name = std::string(field.name),
           .type = field.type,
           .dtype = std::string(is_array ? field.dtype : std::string_view()),
           .shape = is_array ? std::vector<std::uint64_t>(field.shape.begin(), field.shape.end())
                             : std::vector<std::uint64_t>(),
           .bytes = std::span(memory).subspan(begin)});
    }
    return {};
  }

  Status flush() {
    STOKER_TRY(writer_->write_shard(samples_));
    samples_.clear();
    memory_.clear();
    bytes_ = 0;
    return {};
  }

  ForkGuard guard_;
  std::unique_ptr<IngestWriter> writer_;
  const std::uint64_t samples_per_shard_;
  const std::uint64_t shard_bytes_;
  std::uint64_t size_ = 0;
  bool failed_ = false;
  std::uint64_t bytes_ = 0;  ///< Of the samples in memory.
  std::vector<IngestedSample> samples_;
  std::vector<std::vector<std::byte>> memory_;  ///< Of each sample's fields.
};

DatasetWriter::DatasetWriter(std::unique_ptr<Impl> impl) noexcept : impl_(std::move(impl)) {}
DatasetWriter::DatasetWriter(DatasetWriter&& other) noexcept = default;
DatasetWriter& DatasetWriter::operator=(DatasetWriter&& other) noexcept = default;
DatasetWriter::~DatasetWriter() = default;

Result<DatasetWriter> DatasetWriter::open(const DatasetWriterOptions& options) {
  return internal::at_border([&]() -> Result<DatasetWriter> {
    if (options.directory.empty()) return invalid("a DatasetWriter needs a directory");
    if (options.samples_per_shard == 0) return invalid("samples_per_shard: must be at least 1");
    STOKER_ASSIGN(auto writer,
                  IngestWriter::make(posix_file_ops(), options.directory, options.format));
    return DatasetWriter(std::make_unique<Impl>(std::move(writer), options));
  });
}

Status DatasetWriter::write(std::string_view key, std::span<const FieldView> fields) {
  return internal::at_border([&] { return impl_->write(key, fields); });
}

std::uint64_t DatasetWriter::size() const noexcept {
  return impl_->size();
}

Result<PackReport> DatasetWriter::commit() && {
  return internal::at_border([&] { return impl_->commit(); });
}

}  // namespace stoker
