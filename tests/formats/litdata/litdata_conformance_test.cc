#include <cstring>

#include "conformance/shard_format_suite.h"
#include "formats/litdata/litdata_chunk.h"

namespace stoker::testing {
namespace {

void append_u32(std::vector<std::byte>& bytes, std::size_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  const auto raw = std::as_bytes(std::span(&number, 1));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

void append(std::vector<std::byte>& bytes, std::string_view text) {
  const auto raw = std::as_bytes(std::span(text));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

std::vector<OwnedSample> trees(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples(count);
  for (std::size_t i = 0; i < count; ++i)
    samples[i].fields = {{"image", random_bytes(random, i == 1 ? 0 : random() % 60)},
                         {"label", random_bytes(random, 8), FieldType::int64},
                         {"text", "sample " + std::to_string(i), FieldType::text},
                         {"ids", random_bytes(random, 4 * (random() % 9)), FieldType::array}};
  return samples;
}

std::vector<OwnedSample> tokens(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples(count);
  for (OwnedSample& sample : samples)
    sample.fields = {{"item", random_bytes(random, 4 + 4 * (random() % 20)), FieldType::array}};
  return samples;
}

/// The number of samples, where each begins and the last ends, and the samples.
WrittenShard chunk_of(std::span<const std::vector<std::byte>> items) {
  WrittenShard shard;
  append_u32(shard.bytes, items.size());
  std::size_t at = 4 * (items.size() + 2);
  append_u32(shard.bytes, at);
  for (const std::vector<std::byte>& item : items) append_u32(shard.bytes, at += item.size());
  for (const std::vector<std::byte>& item : items)
    shard.bytes.insert(shard.bytes.end(), item.begin(), item.end());
  return shard;
}

/// An item of the PyTreeLoader: the sizes of its leaves, then the leaves.
WrittenShard write_trees(std::span<const OwnedSample> samples) {
  std::vector<std::vector<std::byte>> items;
  for (const OwnedSample& sample : samples) {
    std::vector<std::byte>& item = items.emplace_back();
    for (const OwnedField& field : sample.fields) append_u32(item, field.bytes.size());
    for (const OwnedField& field : sample.fields) append(item, field.bytes);
  }
  return chunk_of(items);
}

WrittenShard write_tokens(std::span<const OwnedSample> samples) {
  std::vector<std::vector<std::byte>> items;
  for (const OwnedSample& sample : samples) append(items.emplace_back(), sample.fields[0].bytes);
  return chunk_of(items);
}

LitdataLeaf leaf(std::string_view name, std::string_view format) {
  return *parse_litdata_format(name, format);
}

Result<std::unique_ptr<ShardReader>> read_with(const LitdataIndex& index) {
  STOKER_ASSIGN(std::unique_ptr<LitdataReader> reader, LitdataReader::make(index));
  return std::unique_ptr<ShardReader>(std::move(reader));
}

Result<std::unique_ptr<ShardReader>> read_trees(const WrittenShard& /*shard*/) {
  LitdataIndex index;
  index.leaves = {leaf("image", "jpeg"), leaf("label", "int"), leaf("text", "str"),
                  leaf("ids", "no_header_numpy:1")};
  return read_with(index);
}

Result<std::unique_ptr<ShardReader>> read_tokens(const WrittenShard& /*shard*/) {
  LitdataIndex index;
  index.is_tokens = true;
  index.leaves = {leaf("item", "no_header_tensor:16")};
  return read_with(index);
}

INSTANTIATE_TEST_SUITE_P(litdata, ShardFormatSuite,
                         ::testing::Values(ShardFormatMaker{.name = "litdata_trees",
                                                            .samples = trees,
                                                            .reader = read_trees,
                                                            .shard = write_trees,
                                                            .has_keys = false},
                                           ShardFormatMaker{.name = "litdata_tokens",
                                                            .samples = tokens,
                                                            .reader = read_tokens,
                                                            .shard = write_tokens,
                                                            .has_keys = false}),
                         shard_format_name);

}  // namespace
}  // namespace stoker::testing
