// Any bytes as a WebDataset shard: nothing crashes, and the amount of read-ahead does not change
// the records found. Every record of an accepted shard splits into a sample with the key that the
// scan found, and the samples that a writer accepts are read back equal.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "formats/webdataset/webdataset_reader.h"
#include "formats/webdataset/webdataset_writer.h"

namespace stoker {
namespace {

using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Found : RecordSink {
  struct Record {
    ByteRange range;
    std::string key;
    bool operator==(const Record&) const = default;
  };
  Status add(ByteRange range, std::string_view key) override {
    records.push_back({range, std::string(key)});
    return {};
  }
  std::vector<Record> records;
};

struct Memory : ByteSink {
  Status write(Bytes piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
};

/// Feeds exact copies, so that AddressSanitizer detects a read beyond the bytes fed.
Status scan(const ShardReader& reader, Bytes shard, std::size_t ahead, Found& found) {
  STOKER_ASSIGN(const std::unique_ptr<ShardScanner> scanner, reader.scan(shard.size()));
  for (ByteRange want; (want = scanner->wants()).size_bytes > 0;) {
    require(want.offset_bytes <= shard.size());
    const Bytes rest = shard.subspan(want.offset_bytes);
    require(want.size_bytes <= rest.size());
    const Bytes fed = rest.first(std::min<std::size_t>(want.size_bytes + ahead, rest.size()));
    const std::vector<std::byte> copy(fed.begin(), fed.end());
    const Status status = scanner->feed(copy, found);
    if (!status.ok()) {
      require(status.code() == Code::corrupt || status.code() == Code::unsupported);
      require(scanner->wants().size_bytes == 0);
      return status;
    }
  }
  return {};
}

bool same(const SampleView& one, const SampleView& other) {
  if (one.key != other.key || one.fields.size() != other.fields.size()) return false;
  return std::ranges::all_of(one.fields, [&](const FieldView& field) {
    const FieldView* match = other.find(field.name);
    return match != nullptr && std::ranges::equal(match->bytes, field.bytes);
  });
}

/// Writes the samples that the writer accepts, and reads them again.
void round_trip(const ShardReader& reader, Bytes shard, const Found& found) {
  Memory memory;
  const std::unique_ptr<ShardWriter> writer = make_webdataset_writer(memory);
  std::deque<SampleView> written;  // not a vector, whose copies would have dangling views
  for (const Found::Record& record : found.records) {
    SampleView sample;
    const Bytes bytes = shard.subspan(record.range.offset_bytes, record.range.size_bytes);
    require(reader.split(bytes, record.range.offset_bytes, sample).ok());
    require(sample.key == record.key && !sample.fields.empty());
    if (writer->append(sample).ok()) written.push_back(std::move(sample));
  }
  const std::uint64_t size_bytes = writer->size_bytes();
  require(writer->finish().ok() && memory.bytes.size() == size_bytes);
  Found again;
  require(scan(reader, memory.bytes, 0, again).ok());
  require(again.records.size() == written.size());
  for (std::size_t i = 0; i < written.size(); ++i) {
    SampleView sample;
    const ByteRange range = again.records[i].range;
    require(reader
                .split(Bytes(memory.bytes).subspan(range.offset_bytes, range.size_bytes),
                       range.offset_bytes, sample)
                .ok());
    require(same(sample, written[i]));
  }
}

/// Corrects the checksum of everything that looks like a header; otherwise hardly any mutation
/// would be accepted.
void fix_checksums(std::span<std::uint8_t> shard) {
  for (; shard.size() >= 512; shard = shard.subspan(512)) {
    const auto field = shard.subspan(148, 8);
    if (field[6] != 0 || field[7] != ' ') continue;
    std::ranges::fill(field, ' ');
    unsigned sum = 0;
    for (const std::uint8_t byte : shard.first(512)) sum += byte;
    for (std::size_t i = 0; i < 6; ++i)
      field[5 - i] = static_cast<std::uint8_t>('0' + (sum >> (3 * i) & 7));
    field[6] = 0;
  }
}

}  // namespace
}  // namespace stoker

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t size_max);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t size_max, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, size_max);
  if (size > 2 && seed % 8 != 0) stoker::fix_checksums({data + 2, size - 2});
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace stoker;
  if (size < 2) return 0;
  const std::size_t ahead = (std::size_t{data[0]} << 8 | data[1]) % 5000;
  const Bytes shard = std::as_bytes(std::span(data + 2, size - 2));
  const std::unique_ptr<ShardReader> reader =
      make_webdataset_reader({.require_end = data[0] % 2 == 0});
  Found found;
  Found found_ahead;
  const Status status = scan(*reader, shard, 0, found);
  const Status status_ahead = scan(*reader, shard, ahead, found_ahead);
  require(status.message() == status_ahead.message() && found.records == found_ahead.records);
  if (status.ok()) round_trip(*reader, shard, found);
  SampleView sample;
  (void)reader->split(shard, data[0], sample);
  return 0;
}
