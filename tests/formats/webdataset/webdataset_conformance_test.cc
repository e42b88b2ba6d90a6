#include "conformance/shard_format_suite.h"
#include "formats/webdataset/webdataset_reader.h"
#include "formats/webdataset/webdataset_writer.h"

namespace stoker::testing {
namespace {

std::vector<OwnedSample> some_samples(std::size_t count, std::mt19937_64& random) {
  std::vector<OwnedSample> samples;
  for (std::size_t i = 0; i < count; ++i) {
    OwnedSample sample;
    // From a short name to one that needs the prefix, and one that needs a PAX header.
    const std::size_t depth = random() % 4 * (random() % 30);
    for (std::size_t k = 0; k < depth; ++k) sample.key += "d." + std::to_string(k) + "/";
    sample.key += std::to_string(i) + std::string(random() % 5 == 0 ? 120 : 1, 'k');
    const std::size_t fields = 1 + random() % 4;
    for (std::size_t k = 0; k < fields; ++k) {
      std::string bytes(random() % 4 == 0 ? random() % 3 * 512 : random() % 1500, '\0');
      for (char& c : bytes) c = static_cast<char>(random());
      sample.fields.push_back({"f" + std::to_string(k) + (k % 2 ? ".seg.png" : ""), bytes});
    }
    samples.push_back(std::move(sample));
  }
  return samples;
}

OwnedSample sample_of(std::string key, std::string field = "txt") {
  return {std::move(key), {{std::move(field), "x"}}};
}

ShardFormatMaker webdataset_maker() {
  ShardFormatMaker maker{
      .name = "tar",
      .samples = some_samples,
      .writer = [](ByteSink& sink, std::span<const OwnedSample>)
          -> Result<std::unique_ptr<ShardWriter>> { return make_webdataset_writer(sink); },
      .reader = [](const WrittenShard&) -> Result<std::unique_ptr<ShardReader>> {
        return make_webdataset_reader();
      }};
  OwnedSample twice = sample_of("a");
  twice.fields.push_back(twice.fields[0]);
  OwnedSample array = sample_of("a", "npy");
  array.fields[0].type = FieldType::array;
  maker.refused = {
      {"no key", {}, sample_of("")},
      {"absolute key", {}, sample_of("/a")},
      {"key that goes up", {}, sample_of("a/../b")},
      {"key ending in a slash", {}, sample_of("a/")},
      {"dot in the last part of the key", {}, sample_of("a/b.c")},
      {"NUL in the key", {}, sample_of(std::string("a\0b", 3))},
      {"metadata key", {}, sample_of("__a__/b")},
      {"key and field that are too long", {}, sample_of(std::string(4093, 'a'))},
      {"dot and new line in a directory", {}, sample_of("a.b\n/c")},
      {"the key of the sample before", {sample_of("a")}, sample_of("a", "jpg")},
      {"no fields", {}, {"a", {}}},
      {"no field name", {}, sample_of("a", "")},
      {"slash in a field name", {}, sample_of("a", "b/c")},
      {"NUL in a field name", {}, sample_of("a", std::string("b\0", 2))},
      {"capitals in a field name", {}, sample_of("a", "JPG")},
      {"reserved field name", {}, sample_of("a", "__key__")},
      {"field given twice", {}, twice},
      {"field with a shape", {}, array},
  };
  return maker;
}

INSTANTIATE_TEST_SUITE_P(webdataset, ShardFormatSuite, ::testing::Values(webdataset_maker()),
                         shard_format_name);

}  // namespace
}  // namespace stoker::testing
