#include "conformance/shard_format_suite.h"
#include "formats/tfrecord/tf_example.h"
#include "formats/tfrecord/tfrecord.h"

namespace stoker::testing {
namespace {

std::vector<OwnedSample> example_samples(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples(count);
  for (std::size_t i = 0; i < count; ++i) {
    samples[i].fields = {
        {"image", random_bytes(random, random() % 40)},
        {"label", random_bytes(random, 8), FieldType::int64},
        {"text", "sample " + std::to_string(i), FieldType::text},
        {"weights", random_bytes(random, 4 * (random() % 5)), FieldType::float32},
        {"names",
         std::string("\x0a\x01"
                     "a"
                     "\x0a\x00",
                     5),
         FieldType::array,
         std::string(kBytesListDtype),
         {2}},
    };
    samples[i].fields.resize(random() % samples[i].fields.size() + 1);
  }
  return samples;
}

std::vector<OwnedSample> raw_samples(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples(count);
  for (std::size_t i = 0; i < count; ++i)
    samples[i].fields = {{"data", random_bytes(random, i == 1 ? 0 : random() % 60)}};
  return samples;
}

template <bool raw>
ShardFormatMaker maker() {
  ShardFormatMaker made{
      .name = raw ? "tfrecord_raw" : "tfrecord",
      .samples = raw ? raw_samples : example_samples,
      .writer = [](ByteSink& sink,
                   std::span<const OwnedSample>) -> Result<std::unique_ptr<ShardWriter>> {
        return make_tfrecord_writer(sink, {.raw = raw});
      },
      .reader = [](const WrittenShard&) -> Result<std::unique_ptr<ShardReader>> {
        return make_tfrecord_reader({.raw = raw});
      },
      .has_keys = false,
      .detects_flips = true,
  };
  if (raw) {
    made.refused = {{"no field", {}, {}}, {"another field", {}, {"", {{"image", "x"}}}}};
  } else {
    made.refused = {{"float64", {}, {"", {{"x", "12345678", FieldType::float64}}}},
                    {"array", {}, {"", {{"x", "1234", FieldType::array, "<f4", {1}}}}},
                    {"half an int64", {}, {"", {{"x", "1234", FieldType::int64}}}},
                    {"a name twice", {}, {"", {{"x", ""}, {"x", ""}}}}};
  }
  return made;
}

INSTANTIATE_TEST_SUITE_P(tfrecord, ShardFormatSuite,
                         ::testing::Values(maker<false>(), maker<true>()), shard_format_name);

}  // namespace
}  // namespace stoker::testing
