#include "dataset/pack_writer.h"

#include <fmt/format.h>

#include "dataset/sample_source.h"
#include "formats/megatron.h"
#include "formats/tfrecord.h"
#include "formats/webdataset_writer.h"

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

/// Each sample is one sequence, and one document.
class MegatronShardWriter final : public ShardWriter {
 public:
  MegatronShardWriter(MegatronWriter writer, Dtype dtype)
      : writer_(std::move(writer)), dtype_(dtype) {}

  Status append(const SampleView& sample) override {
    if (sample.fields.size() != 1 || sample.fields[0].type != FieldType::array ||
        sample.fields[0].dtype != dtype_descr(dtype_))
      return Status(Code::invalid_argument,
                    fmt::format("not an array of {} alone, which is all that tokens are",
                                dtype_name(dtype_)));
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

}  // namespace

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
