#include "conformance/shard_format_suite.h"
#include "formats/mds/mds_shard.h"
#include "formats/mds/mds_writer.h"

namespace stoker::testing {
namespace {

std::vector<OwnedSample> samples_of(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t rows = random() % 4 + 1;
    const std::uint64_t columns = i % 3 == 0 ? 1 : 300;
    samples[i].fields = {
        {"text", "sample " + std::to_string(i), FieldType::text},
        {"image", random_bytes(random, random() % 40)},
        {"label", random_bytes(random, 8), FieldType::int64},
        {"doc", "{}", FieldType::json},
        {"small", random_bytes(random, 2), FieldType::array, "<u2"},
        {"half", random_bytes(random, 4), FieldType::float32},
        {"array", random_bytes(random, rows * columns), FieldType::array, "|u1", {rows, columns}},
        {"ids", random_bytes(random, 8 * (rows + 1)), FieldType::int64},
    };
  }
  return samples;
}

/// The header comes first and grows by 4 bytes with each sample: what last_record() says is right
/// for the shard as it is, and moves with the samples that follow.
class KnowsTheCount final : public ShardWriter {
 public:
  KnowsTheCount(std::unique_ptr<MdsWriter> writer, std::size_t count)
      : writer_(std::move(writer)), count_(count) {}

  Status append(const SampleView& sample) override { return writer_->append(sample); }
  Result<std::vector<Sidecar>> finish() override { return writer_->finish(); }
  std::uint64_t sample_count() const noexcept override { return writer_->sample_count(); }
  std::uint64_t size_bytes() const noexcept override { return writer_->size_bytes(); }
  ByteRange last_record() const noexcept override {
    ByteRange range = writer_->last_record();
    range.offset_bytes += 4 * (count_ - writer_->sample_count());
    return range;
  }

 private:
  std::unique_ptr<MdsWriter> writer_;
  std::size_t count_;
};

ShardFormatMaker maker() {
  return {
      .name = "mds",
      .samples = samples_of,
      .writer = [](ByteSink& sink,
                   std::span<const OwnedSample> samples) -> Result<std::unique_ptr<ShardWriter>> {
        STOKER_ASSIGN(std::unique_ptr<MdsWriter> writer, MdsWriter::make({}, sink));
        return std::unique_ptr<ShardWriter>(
            std::make_unique<KnowsTheCount>(std::move(writer), samples.size()));
      },
      .reader = [](const WrittenShard& shard) -> Result<std::unique_ptr<ShardReader>> {
        STOKER_ASSIGN(std::unique_ptr<MdsReader> reader, make_mds_reader_from_shard(shard.bytes));
        return std::unique_ptr<ShardReader>(std::move(reader));
      },
      .refused = {{"a field is missing", {{"", {{"a", "x"}, {"b", "y"}}}}, {"", {{"a", "x"}}}},
                  {"a field more", {{"", {{"a", "x"}}}}, {"", {{"a", "x"}, {"b", "y"}}}},
                  {"another size",
                   {{"", {{"a", "12345678", FieldType::int64}}}},
                   {"", {{"a", "1234567812345678", FieldType::int64}}}},
                  {"another type",
                   {{"", {{"a", "x", FieldType::text}}}},
                   {"", {{"a", "12345678", FieldType::int64}}}},
                  {"another element type",
                   {{"", {{"a", "1234", FieldType::array, "<f4", {1}}}}},
                   {"", {{"a", "1234", FieldType::array, "<i4", {1}}}}},
                  {"an empty array",
                   {{"", {{"a", "1234", FieldType::array, "<f4", {1}}}}},
                   {"", {{"a", "", FieldType::array, "<f4", {0}}}}},
                  {"a shape that lies",
                   {{"", {{"a", "1234", FieldType::array, "<f4", {1}}}}},
                   {"", {{"a", "1234", FieldType::array, "<f4", {2}}}}}},
      .has_keys = false,
  };
}

INSTANTIATE_TEST_SUITE_P(mds, ShardFormatSuite, ::testing::Values(maker()), shard_format_name);

}  // namespace
}  // namespace stoker::testing
