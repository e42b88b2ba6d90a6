#include "dataset/toys/toy_format.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace stoker::testing {
namespace {

constexpr std::string_view kMagic = "TOYSHARD";
constexpr std::uint64_t kSizeBytes = sizeof(std::uint32_t);

std::uint32_t load_u32(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Status corrupt(std::uint64_t offset_bytes, std::string_view what) {
  return {Code::corrupt, "byte " + std::to_string(offset_bytes) + ": " + std::string(what)};
}

/// Takes bytes from the front of a record, and remembers if there were too few.
class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : rest_(bytes) {}

  bool is_at_end() const { return rest_.empty(); }
  bool is_short() const { return is_short_; }
  std::span<const std::byte> take(std::size_t size) {
    is_short_ = is_short_ || size > rest_.size();
    const std::span<const std::byte> taken = rest_.first(std::min(size, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }
  std::size_t take_u8() {
    const std::span<const std::byte> byte = take(1);
    return byte.empty() ? 0 : std::to_integer<std::size_t>(byte[0]);
  }
  std::size_t take_u32() {
    const std::span<const std::byte> bytes = take(kSizeBytes);
    return is_short_ ? 0 : load_u32(bytes);
  }

 private:
  std::span<const std::byte> rest_;
  bool is_short_ = false;
};

/// Reads the size of a record and the key behind it, and skips the rest.
class ToyScanner final : public ShardScanner {
 public:
  explicit ToyScanner(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  ByteRange wants() const override {
    if (at_bytes_ >= size_bytes_ || has_failed_) return {};
    const std::uint64_t head = at_bytes_ == 0 ? kMagic.size() : kSizeBytes + 1 + 255;
    return {at_bytes_, std::min(head, size_bytes_ - at_bytes_)};
  }

  Status feed(std::span<const std::byte> bytes, RecordSink& sink) override {
    has_failed_ = true;  // until this was fine
    if (at_bytes_ == 0) {
      if (!text_of(bytes).starts_with(kMagic)) return corrupt(0, "not a toy shard");
      at_bytes_ = kMagic.size();
    } else {
      if (bytes.size() < kSizeBytes) return corrupt(at_bytes_, "the shard ends in a record");
      const std::uint64_t size = kSizeBytes + load_u32(bytes);
      if (size > size_bytes_ - at_bytes_) return corrupt(at_bytes_, "the shard ends in a record");
      Cursor head(
          bytes.subspan(kSizeBytes, std::min<std::size_t>(size, bytes.size()) - kSizeBytes));
      const std::string_view key = text_of(head.take(head.take_u8()));
      if (head.is_short()) return corrupt(at_bytes_, "the key ends behind its record");
      STOKER_TRY(sink.add({at_bytes_, size}, key));
      at_bytes_ += size;
    }
    has_failed_ = false;
    return {};
  }

 private:
  const std::uint64_t size_bytes_;
  std::uint64_t at_bytes_ = 0;
  bool has_failed_ = false;
};

class ToyReader final : public ShardReader {
 public:
  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override {
    if (size_bytes < kMagic.size()) return corrupt(0, "shorter than its head");
    return std::unique_ptr<ShardScanner>(std::make_unique<ToyScanner>(size_bytes));
  }

  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override {
    out.clear();
    Cursor cursor(record);
    if (cursor.take_u32() != record.size() - std::min(kSizeBytes, record.size()))
      return corrupt(record_offset_bytes, "a record of another size");
    out.key = text_of(cursor.take(cursor.take_u8()));
    while (!cursor.is_at_end() && !cursor.is_short()) {
      const std::string_view name = text_of(cursor.take(cursor.take_u8()));
      out.fields.push_back({.name = name, .bytes = cursor.take(cursor.take_u32())});
    }
    if (cursor.is_short()) return corrupt(record_offset_bytes, "a field ends behind its record");
    return {};
  }
};

class ToyWriter final : public ShardWriter {
 public:
  static Result<std::unique_ptr<ShardWriter>> make(ByteSink& sink) {
    STOKER_TRY(sink.write(std::as_bytes(std::span(kMagic))));
    return std::unique_ptr<ShardWriter>(new ToyWriter(sink));
  }

  Status append(const SampleView& sample) override {
    if (is_finished_) return Status(Code::invalid_argument, "the shard is finished");
    if (sample.key.empty() || sample.key.size() > 255 || sample.fields.empty())
      return Status(Code::invalid_argument, "a toy has a key of 1 to 255 bytes, and fields");
    std::string record;
    const auto add_u8 = [&record](std::size_t value) { record += static_cast<char>(value); };
    const auto add_u32 = [&record](std::size_t value) {
      const auto number = static_cast<std::uint32_t>(value);
      record.append(reinterpret_cast<const char*>(&number), sizeof number);
    };
    add_u8(sample.key.size());
    record += sample.key;
    for (const FieldView& field : sample.fields) {
      if (field.name.empty() || field.name.size() > 255)
        return Status(Code::invalid_argument, "a field's name has 1 to 255 bytes");
      if (field.type == FieldType::array)
        return Status(Code::invalid_argument, "toys have no arrays");
      add_u8(field.name.size());
      record += field.name;
      add_u32(field.bytes.size());
      record += text_of(field.bytes);
    }
    const std::string body = std::exchange(record, {});
    add_u32(body.size());
    STOKER_TRY(sink_.write(std::as_bytes(std::span(record += body))));
    last_record_ = {size_bytes_, record.size()};
    size_bytes_ += record.size();
    ++sample_count_;
    return {};
  }

  Result<std::vector<Sidecar>> finish() override {
    if (is_finished_) return Status(Code::invalid_argument, "the shard is finished");
    is_finished_ = true;
    return std::vector<Sidecar>();
  }

  std::uint64_t sample_count() const noexcept override { return sample_count_; }
  std::uint64_t size_bytes() const noexcept override { return size_bytes_; }
  ByteRange last_record() const noexcept override { return last_record_; }

 private:
  explicit ToyWriter(ByteSink& sink) : sink_(sink) {}

  ByteSink& sink_;
  std::uint64_t size_bytes_ = kMagic.size();
  std::uint64_t sample_count_ = 0;
  ByteRange last_record_;
  bool is_finished_ = false;
};

}  // namespace

const ShardFormat& toy_format() {
  static constexpr ShardFormat kFormat = {
      .name = "toy",
      .written_as = "toy",
      .has_keys = true,
      .is_shard_name = [](std::string_view name) { return name.ends_with(".toy"); },
      .is_shard_head =
          [](std::span<const std::byte> head) { return text_of(head).starts_with(kMagic); },
      .make_reader = []() -> std::unique_ptr<ShardReader> { return std::make_unique<ToyReader>(); },
      .make_writer = [](const ShardWriterOptions& /*options*/,
                        ByteSink& sink) { return ToyWriter::make(sink); },
      .ending = "toy"};
  return kFormat;
}

}  // namespace stoker::testing
