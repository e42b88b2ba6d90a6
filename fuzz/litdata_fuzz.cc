// An input that starts with '{' is an index, a NUL and a chunk. Any other input is a chunk, read
// with one of a few valid indexes; its last byte selects the index. Inputs may be refused, but must
// not cause a crash.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "formats/litdata/litdata_chunk.h"
#include "formats/litdata/litdata_inflate.h"
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

Status scan(const ShardReader& reader, Bytes chunk, std::uint32_t seed, Records& records) {
  STOKER_ASSIGN(const auto scanner, reader.scan(chunk.size()));
  for (ByteRange want; (want = scanner->wants()).size_bytes > 0;) {
    require(want.offset_bytes <= chunk.size());
    require(want.size_bytes <= chunk.size() - want.offset_bytes);
    seed = seed * 1664525 + 1013904223;
    const std::uint64_t left = chunk.size() - want.offset_bytes;
    const auto fed = chunk.subspan(want.offset_bytes,
                                   std::min<std::uint64_t>(want.size_bytes + (seed >> 24), left));
    const std::vector<std::byte> copy(fed.begin(), fed.end());
    STOKER_TRY(scanner->feed(copy, records));
  }
  return {};
}

void read_chunk(const LitdataIndex& index, Bytes file) {
  const LitdataChunk none = {
      .filename = "chunk", .size_bytes = 4096, .sample_count = 0, .token_count = {}};
  const auto plain =
      inflate_litdata_chunk(index, index.chunks.empty() ? none : index.chunks.front(), file,
                            {.output_bytes_max = 1 << 20});
  if (!plain.ok()) return require_refusal(plain.status());
  for (const std::uint64_t block_tokens : {0U, 3U}) {
    if (block_tokens > 0 && !index.is_tokens) continue;
    const auto reader = LitdataReader::make(index, {.block_tokens = block_tokens});
    require(reader.ok());
    Records records;
    const Status status =
        scan(**reader, *plain, static_cast<std::uint32_t>(file.size() * 2654435761U), records);
    if (!status.ok()) require_refusal(status);
    SampleView sample;
    for (const ByteRange& record : records.list) {
      require(record.end_bytes() <= plain->size());
      const Status split =
          (*reader)->split(Bytes(*plain).subspan(record.offset_bytes, record.size_bytes),
                           record.offset_bytes, sample);
      if (!split.ok()) require_refusal(split);
    }
  }
}

LitdataIndex index_of(LitdataIndex::Compression compression,
                      const std::vector<std::string>& formats) {
  LitdataIndex index;
  index.compression = compression;
  for (const std::string& format : formats) {
    index.leaves.push_back(*parse_litdata_format(std::to_string(index.leaves.size()), format));
  }
  return index;
}

const std::vector<LitdataIndex>& known_indexes() {
  using Compression = LitdataIndex::Compression;
  static const std::vector<LitdataIndex> indexes = [] {
    std::vector<LitdataIndex> list = {
        index_of(Compression::none, {"json"}),
        index_of(Compression::none, {"numpy"}),
        index_of(Compression::none, {"tensor"}),
        index_of(Compression::none, {"int", "str", "no_header_tensor:16", "bool"}),
        index_of(Compression::chunk, {"bytes"}),
        index_of(Compression::batch, {"bytes"}),
        index_of(Compression::sample, {"bytes"}),
        index_of(Compression::none, {"no_header_numpy:5"}),
    };
    list.back().is_tokens = true;
    return list;
  }();
  return indexes;
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (size == 0) return 0;
  if (data[0] == '{') {  // the start of a JSON document
    const std::size_t end = std::min(text.find('\0'), size);
    const auto index = stoker::parse_litdata_index(text.substr(0, end));
    if (index.ok()) {
      stoker::read_chunk(*index, input.subspan(std::min(end + 1, size)));
    } else {
      stoker::require_refusal(index.status());
    }
    return 0;
  }
  const auto& known = stoker::known_indexes();
  stoker::read_chunk(known[data[size - 1] % known.size()], input.first(size - 1));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  const bool is_json = size > 0 && data[0] == '{';
  return stoker::mutate_json_input(data, size, max_size, seed, is_json ? 6 : 16);
}
