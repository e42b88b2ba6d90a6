// The vectors of tests/golden/packs, which another program wrote from docs/formats/packs.md. They
// hold the packs for ever: never change one, and never a line of the code to which it objects.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "dataset/fetch_support.h"
#include "dataset/tokens/token_bins.h"

namespace stoker::testing {
namespace {

using Json = nlohmann::json;

TEST(TokenPacksGoldenTest, documents_share_rows_as_they_always_did) {
  std::ifstream file(STOKER_GOLDEN_DIR "/packs/packs.json");
  const Json cases = Json::parse(file, nullptr, false);
  ASSERT_TRUE(cases.is_array() && !cases.empty());
  for (const Json& golden : cases) {
    const DatasetDir dir;
    write_megatron(dir.file("a"), golden.at("documents").get<std::vector<std::size_t>>());
    const auto dataset = open_dataset(dir.path());
    const auto length = golden.at("length").get<std::uint64_t>();
    const auto packs = TokenBins::open(dataset, {.length = length});
    ASSERT_TRUE(packs.ok()) << packs.status().message();
    ASSERT_EQ(packs->count(), golden.at("packs").size());
    for (std::uint64_t unit = 0; unit < packs->count(); ++unit) {
      const auto expected =
          golden.at("packs")[unit].get<std::vector<std::array<std::uint64_t, 2>>>();
      std::vector<BinPiece> pieces;
      ASSERT_TRUE(packs->locate(unit, pieces).ok());
      ASSERT_EQ(pieces.size(), expected.size()) << "length " << length << ", pack " << unit;
      for (std::size_t i = 0; i < pieces.size(); ++i) {
        const auto [sample, part] = expected[i];
        EXPECT_EQ(pieces[i].range.offset_bytes,
                  dataset->index().locate(sample)->record.offset_bytes + part * length * 2)
            << "length " << length << ", pack " << unit;
        EXPECT_EQ(pieces[i].begins_document, part == 0);
      }
    }
  }
}

}  // namespace
}  // namespace stoker::testing
