#include <fmt/format.h>

#include "dataset/sample_source.h"
#include "formats/mds_encoding.h"
#include "formats/strict_json.h"

namespace stoker {
namespace {

class DatasetSource final : public SampleSource {
 public:
  explicit DatasetSource(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {}

  std::uint64_t sample_count() const noexcept override { return dataset_->sample_count(); }

  Result<Extent> extent(std::uint64_t sample) const override {
    STOKER_ASSIGN(const SampleLocation at, dataset_->index().locate(sample));
    return Extent{.size_bytes = at.record.size_bytes, .field_count = 1};
  }

  Status read(std::uint64_t sample, SourceSample& out) const override {
    out.view.clear();
    STOKER_TRY(dataset_->read(sample, out.record));
    std::string_view key = out.record.key();
    for (const FieldView& field : out.record.view().fields) {
      if (field.name != kKeyField) {
        out.view.fields.push_back(field);
        continue;
      }
      key = {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
    }
    out.view.key = internal::keep_text(out.view, key);
    return {};
  }

  std::string describe(std::uint64_t sample) const override { return dataset_->describe(sample); }

  /// With the shards' times, which the fingerprint of a dataset leaves out: bytes that changed in
  /// place would be mixed with those that are packed already.
  Digest128 fingerprint() const override {
    Xxh3Stream stream;
    const Digest128 samples = dataset_->index().fingerprint();
    stream.update(std::as_bytes(std::span(&samples, 1)));
    for (const IndexedShard& shard : dataset_->index().shards())
      stream.update(std::as_bytes(std::span(&shard.mtime_ns, 1)));
    return stream.digest();
  }

  /// As the first sample's fields are; the others are held to that.
  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    std::vector<std::pair<std::string, std::string>> columns;
    SourceSample first;
    STOKER_TRY(read(0, first));
    for (const FieldView& field : first.view.fields) {
      Result<MdsEncoding> encoding = choose_mds_encoding(field);
      if (!encoding.ok())
        return encoding.status().with_context(
            fmt::format("{}: field {}", describe(0), quote_for_message(field.name)));
      columns.emplace_back(field.name, encoding->text);
    }
    return columns;
  }

  std::optional<Dtype> token_dtype() const override {
    SourceSample first;
    if (sample_count() == 0 || !read(0, first).ok() || first.view.fields.size() != 1)
      return std::nullopt;
    const FieldView& field = first.view.fields.front();
    if (field.type != FieldType::array) return std::nullopt;
    const Result<Dtype> dtype = dtype_from_descr(field.dtype);
    return dtype.ok() ? std::optional(*dtype) : std::nullopt;
  }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

}  // namespace

std::unique_ptr<SampleSource> make_dataset_source(std::shared_ptr<const Dataset> dataset) {
  return std::make_unique<DatasetSource>(std::move(dataset));
}

}  // namespace stoker
