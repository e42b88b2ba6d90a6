// The vectors of tests/golden/order, which another program wrote from docs/formats/order.md. They
// hold the order for ever: never change one, and never a line of the code to which it objects.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "dataset/order_support.h"

namespace stoker::testing {
namespace {

using Json = nlohmann::json;

Json cases_of(const std::string& name) {
  std::ifstream file(STOKER_GOLDEN_DIR "/order/" + name);
  Json cases = Json::parse(file, nullptr, false);
  EXPECT_TRUE(cases.is_array() && !cases.empty()) << name;
  return cases;
}

OrderOptions options_of(const Json& golden) {
  const auto shuffle = parse_shuffle(golden.at("shuffle").get<std::string>());
  EXPECT_TRUE(shuffle.ok());
  return {.shuffle = *shuffle,
          .seed = golden.at("seed").get<std::uint64_t>(),
          .sample_count = golden.at("sample_count").get<std::uint64_t>(),
          .block_samples = golden.value("block_samples", std::uint64_t{0}),
          .window_blocks = golden.value("window_blocks", std::uint64_t{0}),
          .lanes = golden.value("lanes", std::uint64_t{0}),
          .deal_samples = golden.value("deal_samples", std::uint64_t{0})};
}

TEST(OrderGoldenTest, hashes_and_keys) {
  for (const Json& golden : cases_of("hash.json")) {
    const auto words = golden.at("words").get<std::vector<std::uint64_t>>();
    internal::OrderHash hash(static_cast<internal::Purpose>(words.at(0)));
    for (std::size_t i = 1; i < words.size(); ++i) hash = hash.with(words[i]);
    EXPECT_EQ(hash.value(), golden.at("value").get<std::uint64_t>()) << golden;
    EXPECT_EQ(hash.key().low, golden.at("low").get<std::uint64_t>()) << golden;
    EXPECT_EQ(hash.key().high, golden.at("high").get<std::uint64_t>()) << golden;
  }
}

TEST(OrderGoldenTest, permutations) {
  for (const Json& golden : cases_of("permutation.json")) {
    const Permutation permuted(golden.at("count").get<std::uint64_t>(),
                               {.low = golden.at("low").get<std::uint64_t>(),
                                .high = golden.at("high").get<std::uint64_t>()});
    const auto positions = golden.at("positions").get<std::vector<std::uint64_t>>();
    const auto items = golden.at("items").get<std::vector<std::uint64_t>>();
    ASSERT_EQ(positions.size(), items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      EXPECT_EQ(permuted(positions[i]), items[i]) << "count " << permuted.count();
      EXPECT_EQ(permuted.inverse(items[i]), positions[i]) << "count " << permuted.count();
    }
  }
}

TEST(OrderGoldenTest, orders_of_one_dataset) {
  for (const Json& golden : cases_of("order.json")) {
    const auto order = order_of(options_of(golden));
    ASSERT_NE(order, nullptr);
    const auto epoch = golden.at("epoch").get<std::uint64_t>();
    const auto positions = golden.at("positions").get<std::vector<std::uint64_t>>();
    const auto samples = golden.at("samples").get<std::vector<std::uint64_t>>();
    ASSERT_EQ(positions.size(), samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i)
      ASSERT_EQ(order->at(epoch, positions[i]).sample, samples[i])
          << golden << "\nposition " << positions[i];
  }
}

TEST(OrderGoldenTest, mixtures) {
  for (const Json& golden : cases_of("mixture.json")) {
    MixtureOptions options;
    options.order = options_of(golden);
    std::vector<double> weights;
    for (const Json& part : golden.at("parts")) {
      options.parts.push_back({.sample_count = part.at("sample_count").get<std::uint64_t>(),
                               .weight = part.at("weight").get<double>()});
      weights.push_back(options.parts.back().weight);
    }
    const auto slots = mixture_slots(weights);
    ASSERT_TRUE(slots.ok());
    EXPECT_EQ(*slots, golden.at("slots").get<std::vector<std::uint32_t>>());
    const auto order = mixture_of(options);
    ASSERT_NE(order, nullptr);
    const auto epoch = golden.at("epoch").get<std::uint64_t>();
    const auto positions = golden.at("positions").get<std::vector<std::uint64_t>>();
    const auto samples = golden.at("samples").get<std::vector<std::array<std::uint64_t, 2>>>();
    ASSERT_EQ(positions.size(), samples.size());
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const SampleRef ref = order->at(epoch, positions[i]);
      ASSERT_EQ(ref.dataset, samples[i][0]) << golden << "\nposition " << positions[i];
      ASSERT_EQ(ref.sample, samples[i][1]) << golden << "\nposition " << positions[i];
    }
  }
}

}  // namespace
}  // namespace stoker::testing
