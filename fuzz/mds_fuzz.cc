// An input that starts with '{' is an index and a file for its shards. Otherwise its last byte
// tells what the rest is: a shard, samples for a round trip, or compressed bytes of one of the
// codecs. Inputs may be refused, but must not cause a crash; written samples must be read back
// equal.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "formats/decompress.h"
#include "formats/mds/mds_compression.h"
#include "formats/mds/mds_shard.h"
#include "formats/mds/mds_writer.h"
#include "fuzz/json_text_mutator.h"

namespace stoker {
namespace {

using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_refusal(const Status& status) {
  require(status.code() == Code::corrupt || status.code() == Code::unsupported);
  require(!status.message().empty());
}

class Records final : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view /*key*/) override {
    list.push_back(record);
    return {};
  }
  std::vector<ByteRange> list;
};

class Memory final : public ByteSink {
 public:
  Status write(Bytes piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
};

/// Scans with amounts of read-ahead that depend on `seed`, each from memory of exactly that size.
Status scan(const ShardReader& reader, Bytes shard, std::uint32_t seed, Records& records) {
  STOKER_ASSIGN(const auto scanner, reader.scan(shard.size()));
  for (ByteRange want; (want = scanner->wants()).size_bytes > 0;) {
    require(want.offset_bytes <= shard.size());
    require(want.size_bytes <= shard.size() - want.offset_bytes);
    seed = seed * 1664525 + 1013904223;
    const std::uint64_t left = shard.size() - want.offset_bytes;
    const auto fed = shard.subspan(want.offset_bytes,
                                   std::min<std::uint64_t>(want.size_bytes + (seed >> 24), left));
    const std::vector<std::byte> copy(fed.begin(), fed.end());
    STOKER_TRY(scanner->feed(copy, records));
  }
  return {};
}

void read_shard(Bytes shard, std::uint32_t seed) {
  const auto reader = make_mds_reader_from_shard(shard);
  if (!reader.ok()) return require_refusal(reader.status());
  Records records;
  const Status status = scan(**reader, shard, seed, records);
  if (!status.ok()) require_refusal(status);
  SampleView sample;
  for (const ByteRange& record : records.list) {
    require(record.end_bytes() <= shard.size());
    const Status split = (*reader)->split(shard.subspan(record.offset_bytes, record.size_bytes),
                                          record.offset_bytes, sample);
    if (!split.ok()) require_refusal(split);
  }
}

void read_index(std::string_view text, Bytes file) {
  const auto shards = parse_mds_index(text);
  if (!shards.ok()) return require_refusal(shards.status());
  const std::string again = format_mds_index(*shards);
  const auto parsed = parse_mds_index(again);
  require(parsed.ok() && format_mds_index(*parsed) == again);
  for (const MdsShard& shard : *shards) {
    if (!shard.zip) continue;
    const auto raw = inflate_mds_shard(shard, file);
    if (!raw.ok()) require_refusal(raw.status());
  }
}

/// Passes bytes to a codec without the digests that would reject damaged ones.
void inflate(Codec codec, Bytes file) {
  constexpr std::uint64_t kPlainBytesMax = std::uint64_t{1} << 16;
  const auto plain =
      decompress(codec, file, {.output_bytes_max = kPlainBytesMax, .window_log_max = 17});
  if (!plain.ok()) return require_refusal(plain.status());
  require(plain->size() <= kPlainBytesMax);
}

/// Splits the input into values of three columns, writes them and expects to read the same values.
void round_trip(Bytes input) {
  Memory sink;
  const auto writer =
      MdsWriter::make({.columns = {{"b", "bytes"}, {"n", "int"}, {"a", "ndarray:uint8"}}}, sink);
  require(writer.ok());
  std::vector<std::array<Bytes, 3>> expected;
  while (input.size() >= 10) {
    const std::size_t size = std::to_integer<std::size_t>(input[0]);
    const std::size_t elements = std::to_integer<std::size_t>(input[1]) + 1;
    const Bytes number = input.subspan(2, 8);
    input = input.subspan(10);
    const Bytes blob = input.first(std::min(size, input.size()));
    const Bytes array = input.first(std::min(elements, input.size()));
    const std::array<std::uint64_t, 2> shape = {array.size(), 1};
    SampleView sample;
    sample.fields = {
        {.name = "n", .bytes = number, .type = FieldType::int64},
        {.name = "b", .bytes = blob},
        {.name = "a", .bytes = array, .type = FieldType::array, .dtype = "|u1", .shape = shape}};
    const Status status = (*writer)->append(sample);
    require(status.ok() == !array.empty());
    if (status.ok()) expected.push_back({array, blob, number});
    input = input.subspan(blob.size());
  }
  const std::uint64_t size = (*writer)->size_bytes();
  require((*writer)->finish().ok() && sink.bytes.size() == size);
  const MdsReader reader((*writer)->shard().config.columns);
  Records records;
  require(scan(reader, sink.bytes, 1, records).ok() && records.list.size() == expected.size());
  SampleView sample;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const ByteRange& record = records.list[i];
    const Bytes bytes = Bytes(sink.bytes).subspan(record.offset_bytes, record.size_bytes);
    require(reader.split(bytes, record.offset_bytes, sample).ok());
    for (std::size_t k = 0; k < 3; ++k)
      require(std::ranges::equal(sample.fields[k].bytes, expected[i][k]));
  }
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  if (data[0] == '{') {  // an index, then a NUL, then a file for its shards
    const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
    const std::string_view text(reinterpret_cast<const char*>(data), size);
    const std::size_t end = std::min(text.find('\0'), size);
    stoker::read_index(text.substr(0, end), input.subspan(std::min(end + 1, size)));
    return 0;
  }
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size - 1));
  switch (data[size - 1] % 8) {
    case 0: stoker::inflate(stoker::Codec::brotli, input); break;
    case 1: stoker::inflate(stoker::Codec::bzip2, input); break;
    case 2: stoker::inflate(stoker::Codec::snappy, input); break;
    case 3: stoker::inflate(stoker::Codec::zstd, input); break;
    case 4: stoker::inflate(stoker::Codec::gzip, input); break;
    case 5: stoker::round_trip(input); break;
    default: stoker::read_shard(input, static_cast<std::uint32_t>(size * 2654435761U));
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  const bool is_json = size > 0 && data[0] == '{';
  return stoker::mutate_json_input(data, size, max_size, seed, is_json ? 6 : 16);
}
