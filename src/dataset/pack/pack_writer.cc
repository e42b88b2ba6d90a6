#include "dataset/pack/pack_writer.h"

#include <fmt/format.h>

#include "dataset/input/fit_fields.h"
#include "formats/arrays/megatron.h"
#include "formats/arrays/raw_array.h"
#include "formats/tfrecord/tfrecord.h"
#include "formats/webdataset/webdataset_writer.h"

namespace stoker {
namespace {

class MemorySink final : public ByteSink {
 public:
  Status write(std::span<const std::byte> bytes) override {
    written.insert(written.end(), bytes.begin(), bytes.end());
    return {};
  }
  std::vector<std::byte> written;
};

Status check_tokens(const SampleView& sample, Dtype dtype) {
  if (sample.fields.size() == 1 && sample.fields[0].type == FieldType::array &&
      sample.fields[0].dtype == dtype_descr(dtype))
    return {};
  return Status(
      Code::invalid_argument,
      fmt::format("not an array of {} alone, which is all that tokens are", dtype_name(dtype)));
}

/// Each sample is one sequence, and one document.
class MegatronShardWriter final : public ShardWriter {
 public:
  MegatronShardWriter(MegatronWriter writer, Dtype dtype)
      : writer_(std::move(writer)), dtype_(dtype) {}

  Status append(const SampleView& sample) override {
    STOKER_TRY(check_tokens(sample, dtype_));
    const std::span<const std::byte> tokens = sample.fields[0].bytes;
    const std::uint64_t begin = writer_.bin_size_bytes();
    STOKER_TRY(writer_.append(tokens));
    STOKER_TRY(writer_.end_document());
    last_record_ = {begin, tokens.size()};
    return {};
  }

  Result<std::vector<Sidecar>> finish() override {
    MemorySink idx;
    STOKER_TRY(writer_.finish(idx));
    std::vector<Sidecar> sidecars;
    sidecars.push_back({.suffix = ".idx", .bytes = std::move(idx.written)});
    return sidecars;
  }

  std::uint64_t sample_count() const noexcept override { return writer_.sequence_count(); }
  std::uint64_t size_bytes() const noexcept override { return writer_.bin_size_bytes(); }
  ByteRange last_record() const noexcept override { return last_record_; }

 private:
  MegatronWriter writer_;
  Dtype dtype_;
  ByteRange last_record_;
};

/// Rows of one length behind a header that counts them. The header comes first and is known last,
/// so the rows wait in memory, as MDS's samples do.
class RowShardWriter final : public ShardWriter {
 public:
  RowShardWriter(ByteSink& sink, const PackWriterOptions& options)
      : sink_(sink),
        is_counted_(options.format == "counted"),
        dtype_(options.token_dtype),
        row_bytes_(options.row_bytes) {}

  Status append(const SampleView& sample) override {
    STOKER_TRY(check_tokens(sample, dtype_));
    const std::span<const std::byte> row = sample.fields[0].bytes;
    if (row.empty()) return Status(Code::invalid_argument, "an empty row, which has no form here");
    if (row_bytes_ == 0) row_bytes_ = row.size();
    if (row.size() != row_bytes_)
      return Status(
          Code::invalid_argument,
          fmt::format("{} elements where the first row has {}, and {} holds rows of one length; "
                      "write tokens",
                      row.size() / dtype_size_bytes(dtype_), row_bytes_ / dtype_size_bytes(dtype_),
                      is_counted_ ? "counted" : "shard001"));
    rows_.insert(rows_.end(), row.begin(), row.end());
    return {};
  }

  Result<std::vector<Sidecar>> finish() override {
    const std::uint64_t width = row_bytes_ / dtype_size_bytes(dtype_);
    STOKER_ASSIGN(const std::vector<std::byte> head,
                  is_counted_ ? make_counted_head(sample_count(), width, dtype_)
                              : make_shard001_head(sample_count(), width, dtype_));
    STOKER_TRY(sink_.write(head));
    STOKER_TRY(sink_.write(rows_));
    return std::vector<Sidecar>();
  }

  std::uint64_t sample_count() const noexcept override {
    return row_bytes_ == 0 ? 0 : rows_.size() / row_bytes_;
  }
  std::uint64_t size_bytes() const noexcept override { return head_bytes() + rows_.size(); }
  ByteRange last_record() const noexcept override {
    return rows_.empty() ? ByteRange{} : ByteRange{size_bytes() - row_bytes_, row_bytes_};
  }

 private:
  std::uint64_t head_bytes() const noexcept {
    return is_counted_ ? kCountedHeadBytes : kShard001HeadBytes;
  }

  ByteSink& sink_;
  const bool is_counted_;
  const Dtype dtype_;
  std::uint64_t row_bytes_;
  std::vector<std::byte> rows_;
};

}  // namespace

Status prepare_token_writer(const PackInput& source, PackWriterOptions& options) {
  const std::optional<Dtype> dtype = source.token_dtype();
  if (!dtype)
    return Status(
        Code::invalid_argument,
        fmt::format("--format {} is for samples that are one array each (of .npy, .bin, "
                    "Megatron, or any other with one field of numbers); these are not, or "
                    "do not say what their numbers are: use tar, mds or tfrecord",
                    options.format));
  options.token_dtype = *dtype;
  // Rows that Python reads are not to be had here; then each shard goes by its first.
  InputSample first;
  if (source.read(0, first).ok() && fit_fields(options.format, first.view).ok() &&
      first.view.fields.size() == 1)
    options.row_bytes = first.view.fields[0].bytes.size();
  return {};
}

Result<PackWriter> make_pack_writer(const PackWriterOptions& options, const std::string& name,
                                    ByteSink& sink) {
  const std::string key_field(kKeyField);
  if (options.format == "tar") return PackWriter{.writer = make_webdataset_writer(sink)};
  if (options.format == "tfrecord")
    return PackWriter{.writer = make_tfrecord_writer(sink, {.key_field = key_field})};
  if (options.format == "tokens") {
    STOKER_ASSIGN(MegatronWriter writer,
                  MegatronWriter::make(sink, {.dtype = options.token_dtype}));
    return PackWriter{
        .writer = std::make_unique<MegatronShardWriter>(std::move(writer), options.token_dtype)};
  }
  if (options.format == "counted" || options.format == "shard001")
    return PackWriter{.writer = std::make_unique<RowShardWriter>(sink, options)};
  MdsWriter::Options mds{.columns = options.mds_columns,
                         .size_limit_bytes = options.mds_size_limit_bytes,
                         .basename = name,
                         .key_field = key_field};
  mds.columns.emplace_back(key_field, "str");
  STOKER_ASSIGN(std::unique_ptr<MdsWriter> writer, MdsWriter::make(std::move(mds), sink));
  MdsWriter* const typed = writer.get();
  return PackWriter{.writer = std::move(writer), .mds = typed};
}

}  // namespace stoker
