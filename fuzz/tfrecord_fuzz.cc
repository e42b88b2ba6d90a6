// Any bytes as a shard, with any read-ahead, or as an Example; the last byte selects which. Nothing
// crashes, views stay inside their memory, and accepted samples must survive a round trip.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "formats/tfrecord/tf_example.h"
#include "formats/tfrecord/tfrecord.h"

namespace stoker {
namespace {

using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_readable(const Status& status) {
  require(status.code() == Code::corrupt || status.code() == Code::unsupported);
  require(std::ranges::all_of(status.message(), [](char c) { return c >= ' ' && c <= '~'; }));
}

class RecordList : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view) override {
    records.push_back(record);
    return {};
  }
  std::vector<ByteRange> records;
};

class MemorySink : public ByteSink {
 public:
  Status write(Bytes piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
};

void require_inside(Bytes record, const SampleView& sample) {
  const auto inside = [](Bytes whole, Bytes part) {
    return std::less_equal<>()(whole.data(), part.data()) &&
           std::less_equal<>()(part.data() + part.size(), whole.data() + whole.size());
  };
  for (const FieldView& field : sample.fields)
    require(field.bytes.empty() || inside(record, field.bytes) ||
            std::ranges::any_of(sample.storage, [&](const std::vector<std::byte>& owned) {
              return inside(owned, field.bytes);
            }));
}

void require_equal(const SampleView& a, const SampleView& b) {
  require(a.fields.size() == b.fields.size());
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    require(a.fields[i].name == b.fields[i].name && a.fields[i].type == b.fields[i].type);
    require(std::ranges::equal(a.fields[i].bytes, b.fields[i].bytes));
    require(std::ranges::equal(a.fields[i].shape, b.fields[i].shape));
  }
}

/// Returns the records of the shard, scanned with a read-ahead that the input determines.
std::vector<ByteRange> scan(Bytes shard, std::uint8_t ahead) {
  static const std::unique_ptr<ShardReader> reader = make_tfrecord_reader();
  Result<std::unique_ptr<ShardScanner>> scanner = reader->scan(shard.size());
  RecordList found;
  for (ByteRange want; (want = (*scanner)->wants()).size_bytes > 0;) {
    require(want.end_bytes() <= shard.size());
    const std::uint64_t size =
        std::min<std::uint64_t>(want.size_bytes + ahead * ahead, shard.size() - want.offset_bytes);
    const Bytes fed = shard.subspan(want.offset_bytes, size);
    const std::vector<std::byte> copy(fed.begin(), fed.end());
    if (const Status status = (*scanner)->feed(copy, found); !status.ok()) require_readable(status);
  }
  return found.records;
}

void read_shard(Bytes shard, std::uint8_t ahead) {
  static const std::unique_ptr<ShardReader> readers[] = {make_tfrecord_reader(),
                                                         make_tfrecord_reader({.raw = true})};
  const std::vector<ByteRange> records = scan(shard, ahead);
  if (ahead > 0) require(records == scan(shard, 0));
  for (const ByteRange& record : records) {
    const Bytes bytes = shard.subspan(record.offset_bytes, record.size_bytes);
    for (const auto& reader : readers) {
      SampleView sample;
      const Status status = reader->split(bytes, record.offset_bytes, sample);
      if (!status.ok()) require_readable(status);
      require_inside(bytes, sample);
    }
  }
}

void read_example(Bytes example) {
  SampleView sample;
  if (const Status status = split_example(example, 0, sample); !status.ok())
    return require_readable(status);
  require_inside(example, sample);
  MemorySink sink;
  const std::unique_ptr<ShardWriter> writer = make_tfrecord_writer(sink);
  require(writer->append(sample).ok());
  require(scan(sink.bytes, 7) == std::vector<ByteRange>{writer->last_record()});
  SampleView again;
  require(make_tfrecord_reader()->split(sink.bytes, 0, again).ok());
  require_equal(sample, again);
}

/// Returns at most two records with correct checksums; the input determines their sizes.
std::vector<std::byte> framed(Bytes data) {
  MemorySink sink;
  const std::unique_ptr<ShardWriter> writer = make_tfrecord_writer(sink, {.raw = true});
  for (int i = 0; i < 2 && !data.empty(); ++i) {
    const std::size_t size = std::to_integer<std::size_t>(data[0]);
    const Bytes record = data.subspan(1, std::min(size, data.size() - 1));
    data = data.subspan(1 + record.size());
    SampleView sample;
    sample.fields = {{.name = kTfRecordRawField, .bytes = record}};
    require(writer->append(sample).ok());
  }
  return std::move(sink.bytes);
}

void frame_and_read(Bytes data) {
  MemorySink sink;
  SampleView sample;
  sample.fields = {{.name = kTfRecordRawField, .bytes = data}};
  require(make_tfrecord_writer(sink, {.raw = true})->append(sample).ok());
  SampleView again;
  require(make_tfrecord_reader({.raw = true})->split(sink.bytes, 0, again).ok());
  require_equal(sample, again);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data, size - 1));
  const std::uint8_t last = data[size - 1];
  switch (last % 4) {
    case 0: stoker::frame_and_read(bytes); break;
    case 1: stoker::read_example(bytes); break;
    case 2: stoker::read_shard(stoker::framed(bytes), last / 64); break;
    default: stoker::read_shard(bytes, last / 16);
  }
  return 0;
}
