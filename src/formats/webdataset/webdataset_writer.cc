#include "formats/webdataset/webdataset_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "formats/webdataset/tar_header.h"
#include "formats/webdataset/webdataset_names.h"

namespace stoker {
namespace {

constexpr std::uint64_t kEndBytes = 2 * kTarBlockBytes;
/// tar's convention: archives are written in records of 20 blocks.
constexpr std::uint64_t kArchiveUnitBytes = 20 * kTarBlockBytes;

class WebDatasetWriter : public ShardWriter {
 public:
  explicit WebDatasetWriter(ByteSink& sink) : sink_(sink) {}

  Status append(const SampleView& sample) override {
    STOKER_TRY(check_open());
    std::vector<const FieldView*> fields;
    STOKER_TRY(check(sample, fields));
    const std::uint64_t begin_bytes = position_bytes_;
    failure_ = write_members(sample.key, fields);
    STOKER_TRY(failure_);
    last_record_ = {begin_bytes, position_bytes_ - begin_bytes};
    last_key_ = sample.key;
    ++sample_count_;
    return {};
  }

  Result<std::vector<Sidecar>> finish() override {
    STOKER_TRY(check_open());
    finished_ = true;
    pending_.resize(pending_.size() + (size_bytes() - position_bytes_));
    failure_ = sink_.write(pending_);
    STOKER_TRY(failure_);
    return std::vector<Sidecar>();
  }

  std::uint64_t sample_count() const noexcept override { return sample_count_; }
  std::uint64_t size_bytes() const noexcept override {
    const std::uint64_t units = (position_bytes_ + kEndBytes + kArchiveUnitBytes - 1);
    return units / kArchiveUnitBytes * kArchiveUnitBytes;
  }
  ByteRange last_record() const noexcept override { return last_record_; }

 private:
  Status check_open() const {
    STOKER_TRY(failure_);
    if (finished_) return Status(Code::invalid_argument, "the shard is finished already");
    return {};
  }

  /// Checks everything about a sample before writing any of it.
  Status check(const SampleView& sample, std::vector<const FieldView*>& sorted) const {
    STOKER_TRY(check_key(sample.key));
    if (sample_count_ > 0 && sample.key == last_key_)
      return refuse(sample,
                    "has the same key as the sample before it, and readers would take the "
                    "two for one; give each its own");
    if (sample.fields.empty())
      return refuse(sample, "has no fields, and a tar has no place for it; add one, even if empty");
    std::size_t names_bytes = 0;
    for (const FieldView& field : sample.fields) {
      STOKER_TRY(check_field(sample.key, field));
      names_bytes += field.name.size() + 1;
      sorted.push_back(&field);
    }
    if (names_bytes > kFieldNamesBytesMax)
      return refuse(sample, "has more than 1 MiB of field names; pack fields together");
    std::ranges::sort(sorted, {}, &FieldView::name);
    const auto twice = std::ranges::adjacent_find(sorted, {}, &FieldView::name);
    if (twice != sorted.end())
      return refuse(sample, fmt::format("has two fields {}", tar_quoted((*twice)->name)));
    return {};
  }

  static Status refuse(const SampleView& sample, std::string_view why) {
    return Status(Code::invalid_argument, fmt::format("sample {} {}", tar_quoted(sample.key), why));
  }

  /// Writes data to the sink without a copy; the padding before a header is written with the
  /// header.
  Status write_members(std::string_view key, std::span<const FieldView* const> fields) {
    for (const FieldView* field : fields) {
      std::string name;
      name.append(key).append(".").append(field->name);
      const std::size_t padding = pending_.size();
      append_tar_headers(name, field->bytes.size(), pending_);
      position_bytes_ += pending_.size() - padding;
      STOKER_TRY(sink_.write(pending_));
      if (!field->bytes.empty()) STOKER_TRY(sink_.write(field->bytes));
      pending_.assign((kTarBlockBytes - field->bytes.size() % kTarBlockBytes) % kTarBlockBytes,
                      std::byte{0});
      position_bytes_ += field->bytes.size() + pending_.size();
    }
    return {};
  }

  ByteSink& sink_;
  Status failure_;
  bool finished_ = false;
  std::uint64_t position_bytes_ = 0;  // of the next header
  std::vector<std::byte> pending_;    // padding before the next header, not yet written
  ByteRange last_record_;
  std::string last_key_;
  std::uint64_t sample_count_ = 0;
};

}  // namespace

std::unique_ptr<ShardWriter> make_webdataset_writer(ByteSink& sink) {
  return std::make_unique<WebDatasetWriter>(sink);
}

}  // namespace stoker
