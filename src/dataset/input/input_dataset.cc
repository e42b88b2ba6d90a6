#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "dataset/input/input.h"
#include "dataset/shards/dataset_manifest.h"
#include "formats/arrays/array_formats.h"
#include "formats/json/strict_json.h"
#include "formats/mds/mds_encoding.h"
#include "formats/mds/mds_format.h"
#include "formats/mds/mds_shard.h"
#include "formats/table/shard_formats.h"
#include "formats/webdataset/webdataset_names.h"

namespace stoker {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{256} << 20;

class DatasetInput final : public PackInput {
 public:
  explicit DatasetInput(std::shared_ptr<const ShardDataset> dataset)
      : dataset_(std::move(dataset)), checks_(dataset_->source().shards().size()) {}

  std::uint64_t sample_count() const noexcept override { return dataset_->sample_count(); }

  Result<Extent> extent(std::uint64_t sample) const override {
    STOKER_ASSIGN(const SampleLocation at, dataset_->index().locate(sample));
    return Extent{.size_bytes = at.record.size_bytes, .field_count = 1};
  }

  Status read(std::uint64_t sample, InputSample& out) const override {
    out.view.clear();
    STOKER_TRY(check_shard_of(sample));
    STOKER_TRY(dataset_->read(sample, out.record));
    for (const FieldView& field : out.record.view().fields)
      if (field.name != kKeyField) out.view.fields.push_back(field);
    out.view.key = out.view.keep(out.record.key());
    return {};
  }

  std::string describe(std::uint64_t sample) const override { return dataset_->describe(sample); }

  /// Includes the shards' modification times, unlike the fingerprint of a dataset: otherwise a
  /// resumed pack could mix bytes from before and after a change.
  Digest128 fingerprint() const override {
    Xxh3Stream stream;
    const Digest128 samples = dataset_->index().fingerprint();
    stream.update(std::as_bytes(std::span(&samples, 1)));
    for (const IndexedShard& shard : dataset_->index().shards())
      stream.update(std::as_bytes(std::span(&shard.mtime_ns, 1)));
    return stream.digest();
  }

  /// Reads the extra files.
  Status read_files() {
    const std::string& directory = dataset_->source().directory();
    ObjectStore& store = dataset_->source().store();
    const Result<Manifest> manifest = read_manifest(directory, store);
    if (!manifest.ok()) return {};  // none, or a file of another tool
    for (const ManifestFile& file : manifest->files) {
      if (file.name == "index.json" || file.name.ends_with(".idx")) continue;
      STOKER_ASSIGN(
          std::string text,
          internal::read_whole(store, internal::key_in(directory, file.name), kFileBytesMax));
      files_.emplace_back(file.name, std::move(text));
    }
    return {};
  }

  std::vector<std::pair<std::string, std::string>> extra_files() const override { return files_; }

  /// The columns of an MDS dataset, else those of the first sample's fields. The other samples must
  /// match.
  Result<std::vector<std::pair<std::string, std::string>>> mds_columns() const override {
    std::vector<std::pair<std::string, std::string>> columns;
    InputSample first;
    STOKER_TRY(read(0, first));
    STOKER_TRY(fit_fields(mds_format(), first.view));
    const std::vector<MdsColumn> known = own_columns();
    for (const FieldView& field : first.view.fields) {
      const auto column = std::ranges::find(known, field.name, &MdsColumn::name);
      if (column != known.end() && can_hold(column->encoding, field)) {
        columns.emplace_back(field.name, column->encoding.text);
        continue;
      }
      // A field whose type the manifest tells is encoded by its type.
      if (field.is_implied) {
        columns.emplace_back(field.name, internal::mds_encoding_of_extension(field.name));
        continue;
      }
      Result<MdsEncoding> encoding = choose_mds_encoding(field);
      if (!encoding.ok())
        return encoding.status().with_context(
            fmt::format("{}: field {}", describe(0), quote_for_message(field.name)));
      columns.emplace_back(field.name, encoding->text);
    }
    return columns;
  }

  std::optional<Dtype> token_dtype() const override {
    InputSample first;
    if (sample_count() == 0 || !read(0, first).ok() ||
        !fit_fields(megatron_format(), first.view).ok() || first.view.fields.size() != 1)
      return std::nullopt;
    const FieldView& field = first.view.fields.front();
    if (field.type != FieldType::array) return std::nullopt;
    const Result<Dtype> dtype = dtype_from_descr(field.dtype);
    return dtype.ok() ? std::optional(*dtype) : std::nullopt;
  }

 private:
  struct ShardCheck {
    std::once_flag once;
    Status verdict;  // written once, then read by all threads
  };

  /// Digests of new shards over bytes that are already damaged would hide the damage. If the index
  /// has checksums, every read is verified with those, and the digests were checked when they were
  /// made.
  Status check_shard_of(std::uint64_t sample) const {
    if (dataset_->index().has_checksums()) return {};
    STOKER_ASSIGN(const SampleLocation at, dataset_->index().locate(sample));
    ShardCheck& check = checks_[at.shard];
    std::call_once(check.once,
                   [&] { check.verdict = internal::check_digests(dataset_->source(), at.shard); });
    return check.verdict;
  }

  static bool can_hold(const MdsEncoding& encoding, const FieldView& field) {
    std::vector<std::byte> ignored;
    return encode_mds_value(encoding, field, ignored).ok();
  }

  /// The columns of an MDS dataset, whose encodings are more specific than the types of fields.
  std::vector<MdsColumn> own_columns() const {
    const auto* reader = dynamic_cast<const MdsReader*>(&dataset_->source().reader());
    return reader == nullptr ? std::vector<MdsColumn>() : reader->columns();
  }

  std::shared_ptr<const ShardDataset> dataset_;
  mutable std::vector<ShardCheck> checks_;  // by shard
  std::vector<std::pair<std::string, std::string>> files_;
};

}  // namespace

Result<std::unique_ptr<PackInput>> make_dataset_input(std::shared_ptr<const ShardDataset> dataset) {
  auto input = std::make_unique<DatasetInput>(std::move(dataset));
  STOKER_TRY(input->read_files());
  return std::unique_ptr<PackInput>(std::move(input));
}

}  // namespace stoker
