#include "formats/tfrecord/tfrecord.h"

#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/checksum.h"
#include "formats/tfrecord/tf_example.h"

namespace stoker {
namespace {

using internal::kTfRecordFrameBytes;
using internal::kTfRecordHeaderBytes;
using internal::masked_crc32c;

static_assert(std::endian::native == std::endian::little);

template <typename Number>
Number load(std::span<const std::byte> bytes, std::uint64_t offset) {
  Number value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Status corrupt(std::uint64_t record_offset_bytes, const std::string& what) {
  return Status(Code::corrupt,
                "record at offset " + std::to_string(record_offset_bytes) + ": " + what);
}

bool length_is_right(std::span<const std::byte> header) {
  return masked_crc32c(header.first(8)) == load<std::uint32_t>(header, 8);
}

/// Recognizes compressed files by their first bytes. Used only after a checksum mismatch: a record
/// of 35,615 bytes begins like gzip.
const char* compression_of(std::span<const std::byte> head) {
  const auto first = std::to_integer<unsigned>(head[0]);
  const auto second = std::to_integer<unsigned>(head[1]);
  if (first == 0x1F && second == 0x8B) return "gzip";
  if (first == 0x78 && (first << 8 | second) % 31 == 0) return "zlib";
  if (load<std::uint32_t>(head, 0) == 0xFD2FB528) return "zstd";
  return nullptr;
}

class TfRecordScanner final : public ShardScanner {
 public:
  explicit TfRecordScanner(std::uint64_t size_bytes) : size_bytes_(size_bytes) {}

  ByteRange wants() const override {
    const std::uint64_t rest_bytes = size_bytes_ - next_bytes_;
    return {next_bytes_, rest_bytes < kTfRecordHeaderBytes ? rest_bytes : kTfRecordHeaderBytes};
  }

  Status feed(std::span<const std::byte> bytes, RecordSink& sink) override {
    Status status = take(bytes, sink);
    if (!status.ok()) next_bytes_ = size_bytes_;  // finished
    return status;
  }

 private:
  Status take(std::span<const std::byte> bytes, RecordSink& sink) {
    const std::uint64_t begin_bytes = next_bytes_;
    if (bytes.size() < wants().size_bytes)
      return Status(Code::invalid_argument, "the scanner got fewer bytes than it wanted");
    while (next_bytes_ < size_bytes_) {
      const std::uint64_t skip_bytes = next_bytes_ - begin_bytes;
      const ByteRange wanted = wants();
      if (skip_bytes > bytes.size() || bytes.size() - skip_bytes < wanted.size_bytes) return {};
      const std::uint64_t rest_bytes = size_bytes_ - next_bytes_;
      if (rest_bytes < kTfRecordHeaderBytes)
        return corrupt(next_bytes_, "the shard ends after " + std::to_string(rest_bytes) +
                                        " bytes of its header of 12");
      STOKER_ASSIGN(const std::uint64_t record_bytes,
                    read_header(bytes.subspan(skip_bytes, kTfRecordHeaderBytes), rest_bytes));
      STOKER_TRY(sink.add({next_bytes_, record_bytes}, {}));
      next_bytes_ += record_bytes;
    }
    return {};
  }

  Result<std::uint64_t> read_header(std::span<const std::byte> header,
                                    std::uint64_t rest_bytes) const {
    if (!length_is_right(header)) {
      if (const char* name = compression_of(header); next_bytes_ == 0 && name != nullptr)
        return Status(Code::unsupported, std::string("the shard is compressed as a whole (") +
                                             name + "); decompress it first");
      return corrupt(next_bytes_, "the checksum of its length is wrong");
    }
    const auto length = load<std::uint64_t>(header, 0);
    if (rest_bytes < kTfRecordFrameBytes || length > rest_bytes - kTfRecordFrameBytes)
      return corrupt(next_bytes_, "its " + std::to_string(length) +
                                      " bytes of data go past the end of the shard at " +
                                      std::to_string(size_bytes_));
    return kTfRecordFrameBytes + length;
  }

  std::uint64_t size_bytes_;
  std::uint64_t next_bytes_ = 0;  // where the next record begins
};

class TfRecordReader final : public ShardReader {
 public:
  explicit TfRecordReader(TfRecordReaderOptions options) : options_(options) {}

  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t size_bytes) const override {
    return std::unique_ptr<ShardScanner>(std::make_unique<TfRecordScanner>(size_bytes));
  }

  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override {
    out.clear();
    if (record.size() < kTfRecordFrameBytes)
      return corrupt(record_offset_bytes,
                     std::to_string(record.size()) + " bytes are not a record");
    if (!length_is_right(record))
      return corrupt(record_offset_bytes, "the checksum of its length is wrong");
    if (load<std::uint64_t>(record, 0) != record.size() - kTfRecordFrameBytes)
      return corrupt(record_offset_bytes,
                     "its length does not match its " + std::to_string(record.size()) + " bytes");
    const auto data = record.subspan(kTfRecordHeaderBytes, record.size() - kTfRecordFrameBytes);
    if (masked_crc32c(data) != load<std::uint32_t>(record, record.size() - 4))
      return corrupt(record_offset_bytes, "the checksum of its data is wrong");
    if (options_.raw) {
      out.fields.push_back({.name = kTfRecordRawField, .bytes = data});
      return {};
    }
    Status status = split_example(data, record_offset_bytes + kTfRecordHeaderBytes, out);
    if (status.ok()) return status;
    out.clear();
    return status.with_context("record at offset " + std::to_string(record_offset_bytes) +
                               " is not a tf.Example");
  }

 private:
  TfRecordReaderOptions options_;
};

}  // namespace

namespace internal {

std::uint32_t masked_crc32c(std::span<const std::byte> data) noexcept {
  return std::rotr(crc32c(data), 15) + 0xA282EAD8U;
}

}  // namespace internal

std::unique_ptr<ShardReader> make_tfrecord_reader(TfRecordReaderOptions options) {
  return std::make_unique<TfRecordReader>(options);
}

}  // namespace stoker
