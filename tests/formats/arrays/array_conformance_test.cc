// Rows and sequences of numbers: the formats of token files.
#include "conformance/shard_format_suite.h"
#include "formats/arrays/array_formats.h"
#include "formats/arrays/token_reader.h"
#include "formats/arrays/tokens.h"

namespace stoker::testing {
namespace {

constexpr Dtype kDtype = Dtype::uint16;
constexpr std::size_t kRowBytes = 14;

OwnedSample tokens(std::size_t size_bytes, std::mt19937_64& random) {
  return {
      "",
      {{"tokens", random_bytes(random, size_bytes), FieldType::array, "<u2", {size_bytes / 2}}}};
}

std::vector<OwnedSample> rows(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples;
  for (std::size_t i = 0; i < count; ++i) samples.push_back(tokens(kRowBytes, random));
  return samples;
}

/// One of them is empty, which Megatron's can be.
std::vector<OwnedSample> sequences(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples;
  for (std::size_t i = 0; i < count; ++i)
    samples.push_back(tokens(i == 1 ? 0 : 2 + 2 * (random() % 30), random));
  return samples;
}

/// A shard in memory with the scanner that its layout gives.
class LaidOutReader final : public ShardReader {
 public:
  LaidOutReader(const TokenLayout& layout, std::string idx)
      : layout_(layout), idx_(std::move(idx)), reader_(layout.dtype) {}

  Result<std::unique_ptr<ShardScanner>> scan(std::uint64_t /*size_bytes*/) const override {
    return make_token_scanner(layout_);
  }
  Status split(std::span<const std::byte> record, std::uint64_t record_offset_bytes,
               SampleView& out) const override {
    return reader_.split(record, record_offset_bytes, out);
  }

 private:
  const TokenLayout layout_;
  const std::string idx_;
  const TokenReader reader_;
};

Result<std::unique_ptr<ShardReader>> read_megatron(const WrittenShard& shard) {
  const std::vector<std::byte>& bytes = shard.sidecars.at(0).bytes;
  std::string idx(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  STOKER_ASSIGN(const TokenLayout layout,
                layout_of_megatron(std::as_bytes(std::span(idx)), shard.bytes.size()));
  return std::unique_ptr<ShardReader>(std::make_unique<LaidOutReader>(layout, std::move(idx)));
}

template <TokenFormat format>
Result<std::unique_ptr<ShardReader>> read_array(const WrittenShard& shard) {
  STOKER_ASSIGN(const TokenLayout layout,
                parse_tokens(format, shard.bytes, shard.bytes.size(), kDtype));
  return std::unique_ptr<ShardReader>(std::make_unique<LaidOutReader>(layout, std::string()));
}

template <TokenFormat format>
WrittenShard write_array(std::span<const OwnedSample> samples) {
  MemorySink sink;
  Result<TokenWriter> writer =
      TokenWriter::make(sink, format, kDtype, {samples.size(), kRowBytes / 2});
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  for (const OwnedSample& sample : samples)
    EXPECT_TRUE(writer->append(std::as_bytes(std::span(sample.fields[0].bytes))).ok());
  EXPECT_TRUE(writer->finish().ok());
  WrittenShard shard;
  shard.bytes = std::move(sink.bytes);
  return shard;
}

std::vector<RefusedSample> refused() {
  OwnedSample array{"", {{"tokens", "1234", FieldType::array, "<i4", {1}}}};
  OwnedSample more{"", {{"tokens", "12", FieldType::array, "<u2", {1}}, {"b", "x"}}};
  return {{"bytes", {}, {"", {{"tokens", "12"}}}},
          {"another element type", {}, std::move(array)},
          {"a field more", {}, std::move(more)},
          {"no field", {}, {}}};
}

template <const ShardFormat& (*format)()>
Result<std::unique_ptr<ShardWriter>> write(ByteSink& sink, std::span<const OwnedSample>) {
  return format().make_writer({.dtype = kDtype, .row_bytes = kRowBytes}, sink);
}

ShardFormatMaker rows_maker(ShardFormatMaker maker) {
  maker.samples = rows;
  maker.refused = refused();
  maker.refused.push_back(
      {"a row of another length", {}, {"", {{"tokens", "1234", FieldType::array, "<u2", {2}}}}});
  maker.has_keys = false;
  return maker;
}

INSTANTIATE_TEST_SUITE_P(
    arrays, ShardFormatSuite,
    ::testing::Values(ShardFormatMaker{.name = "megatron",
                                       .samples = sequences,
                                       .writer = write<megatron_format>,
                                       .reader = read_megatron,
                                       .refused = refused(),
                                       .has_keys = false},
                      rows_maker({.name = "counted",
                                  .samples = nullptr,
                                  .writer = write<counted_format>,
                                  .reader = read_array<TokenFormat::counted>}),
                      rows_maker({.name = "shard001",
                                  .samples = nullptr,
                                  .writer = write<shard001_format>,
                                  .reader = read_array<TokenFormat::shard001>}),
                      ShardFormatMaker{.name = "npy",
                                       .samples = rows,
                                       .reader = read_array<TokenFormat::npy>,
                                       .shard = write_array<TokenFormat::npy>,
                                       .has_keys = false},
                      ShardFormatMaker{.name = "raw",
                                       .samples = rows,
                                       .reader = read_array<TokenFormat::raw>,
                                       .shard = write_array<TokenFormat::raw>,
                                       .has_keys = false,
                                       .samples_max = 1,
                                       .is_whole_at_any_size = true}),
    shard_format_name);

}  // namespace
}  // namespace stoker::testing
