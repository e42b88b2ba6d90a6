#include "formats/webdataset/webdataset_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>

#include "formats/webdataset/tar_walker.h"
#include "formats/webdataset/webdataset_names.h"

namespace stoker {
namespace {

/// Returns a member's key and extension; nothing if webdataset ignores it.
std::optional<MemberName> sample_member(const TarEntry& entry) {
  if (entry.kind != TarEntry::Kind::regular || is_metadata_name(entry.name)) return std::nullopt;
  return split_member_name(entry.name);
}

Status refuse_member(const TarEntry& entry, std::string_view why) {
  return tar_corrupt(entry.begin_bytes, fmt::format("member {} {}", tar_quoted(entry.name), why));
}

Status refuse_reserved(const TarEntry& entry) {
  return refuse_member(entry, "has an extension \"__...__\", which webdataset keeps for itself");
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  std::ranges::transform(lower, lower.begin(), to_lower_case);
  return lower;
}

/// Groups members into samples and reports them to a RecordSink.
class Grouper : public TarEntrySink {
 public:
  explicit Grouper(RecordSink* sink) : sink_(sink) {}
  void set_sink(RecordSink* sink) { sink_ = sink; }

  Status add(const TarEntry& entry) override {
    const std::optional<MemberName> member = sample_member(entry);
    if (!member) return {};
    if (!open_ || member->key != key_) {
      STOKER_TRY(flush());
      open_ = true;
      key_ = member->key;
      record_begin_bytes_ = entry.begin_bytes;
    }
    std::string extension = lower_case(member->extension);
    if (is_reserved_field(extension)) return refuse_reserved(entry);
    names_bytes_ += extension.size() + 1;
    if (names_bytes_ > kFieldNamesBytesMax)
      return refuse_member(entry, "is one too many: a sample has more than 1 MiB of field names");
    if (!extensions_.insert(std::move(extension)).second)
      return refuse_member(entry, "is the second one of that extension in its sample");
    record_end_bytes_ = entry.end_bytes;
    return {};
  }

  Status flush() {
    if (!open_) return {};
    open_ = false;
    extensions_.clear();
    names_bytes_ = 0;
    return sink_->add({record_begin_bytes_, record_end_bytes_ - record_begin_bytes_}, key_);
  }

 private:
  RecordSink* sink_;
  bool open_ = false;
  std::string key_;
  std::uint64_t record_begin_bytes_ = 0;
  std::uint64_t record_end_bytes_ = 0;
  std::set<std::string> extensions_;
  std::size_t names_bytes_ = 0;
};

class WebDatasetScanner : public ShardScanner {
 public:
  explicit WebDatasetScanner(const TarWalker::Options& options) : walker_(options) {}

  ByteRange wants() const override { return failed_ ? ByteRange{} : walker_.wants(); }

  Status feed(std::span<const std::byte> bytes, RecordSink& sink) override {
    grouper_.set_sink(&sink);
    Status status = walker_.feed(bytes, grouper_);
    if (status.ok() && walker_.finished()) status = grouper_.flush();
    failed_ = !status.ok();
    return status;
  }

 private:
  TarWalker walker_;
  Grouper grouper_{nullptr};
  bool failed_ = false;
};

/// Copies `text` into the sample's storage and returns a view of the copy.
std::string_view keep(std::string_view text, SampleView& out) {
  const std::span<const std::byte> bytes = std::as_bytes(std::span(text));
  const std::vector<std::byte>& kept = out.storage.emplace_back(bytes.begin(), bytes.end());
  return {reinterpret_cast<const char*>(kept.data()), kept.size()};
}

/// Converts the members of one record to fields.
class Splitter : public TarEntrySink {
 public:
  Splitter(std::span<const std::byte> record, std::uint64_t offset_bytes, SampleView& out)
      : record_(record), offset_bytes_(offset_bytes), out_(out) {}

  Status add(const TarEntry& entry) override {
    const std::optional<MemberName> member = sample_member(entry);
    if (!member) return {};
    if (out_.fields.empty()) {
      out_.key = entry.name_is_fed ? member->key : keep(member->key, out_);
    } else if (member->key != out_.key) {
      return refuse_member(entry, fmt::format("in the record of sample {}: the shard has changed, "
                                              "or its index belongs to another",
                                              tar_quoted(out_.key)));
    }
    FieldView field;
    if (!is_lower_case(member->extension)) {
      field.name = keep(lower_case(member->extension), out_);
    } else {
      field.name = entry.name_is_fed ? member->extension : keep(member->extension, out_);
    }
    if (is_reserved_field(field.name)) return refuse_reserved(entry);
    field.bytes = record_.subspan(entry.data.offset_bytes - offset_bytes_, entry.data.size_bytes);
    field.type = type_of_extension(field.name);
    field.is_implied = true;
    out_.fields.push_back(field);
    return {};
  }

  /// Whether two fields have the same name. Compares pairs if there are few fields.
  bool has_duplicate() const {
    constexpr std::size_t kFew = 16;
    const std::vector<FieldView>& fields = out_.fields;
    if (fields.size() <= kFew) {
      for (std::size_t i = 1; i < fields.size(); ++i)
        for (std::size_t k = 0; k < i; ++k)
          if (fields[i].name == fields[k].name) return true;
      return false;
    }
    std::set<std::string_view> names;
    return !std::ranges::all_of(
        fields, [&](const FieldView& field) { return names.insert(field.name).second; });
  }

 private:
  std::span<const std::byte> record_;
  std::uint64_t offset_bytes_;
  SampleView& out_;
};

class WebDatasetReader : public ShardReader {
 public:
  explicit WebDatasetReader(const WebDatasetOptions& options) : options_(options) {}

  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override {
    if (size_bytes == 0) return tar_corrupt(0, "the shard is empty: not even an end of archive");
    return std::unique_ptr<ShardScanner>(std::make_unique<WebDatasetScanner>(
        TarWalker::Options{.size_bytes = size_bytes, .require_end = options_.require_end}));
  }

  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override {
    out.clear();
    std::uint64_t end_bytes = 0;
    if (__builtin_add_overflow(record_offset_bytes, record.size(), &end_bytes))
      return tar_corrupt(record_offset_bytes, "the record goes past 2^64");
    Splitter splitter(record, record_offset_bytes, out);
    TarWalker walker(
        {.offset_bytes = record_offset_bytes, .size_bytes = record.size(), .require_end = false});
    if (!walker.finished()) STOKER_TRY(walker.feed(record, splitter));
    if (!walker.finished() || walker.wants().offset_bytes != end_bytes || out.fields.empty())
      return tar_corrupt(record_offset_bytes,
                         "the record is not that of a sample: the shard has "
                         "changed, or its index belongs to another");
    if (splitter.has_duplicate())
      return tar_corrupt(record_offset_bytes, "the sample has two members of one extension");
    return {};
  }

 private:
  WebDatasetOptions options_;
};

}  // namespace

std::unique_ptr<ShardReader> make_webdataset_reader(const WebDatasetOptions& options) {
  return std::make_unique<WebDatasetReader>(options);
}

}  // namespace stoker
