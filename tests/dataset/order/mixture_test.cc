#include "dataset/order/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "dataset/order_support.h"

namespace stoker::testing {
namespace {

using Slots = std::vector<std::uint32_t>;

Slots slots_of(const std::vector<double>& weights) {
  const auto slots = mixture_slots(weights);
  EXPECT_TRUE(slots.ok()) << slots.status().message();
  return slots.ok() ? *slots : Slots{};
}

MixtureOptions mixture(std::vector<MixturePart> parts, std::uint64_t epoch_samples = 0,
                       Shuffle shuffle = Shuffle::global) {
  MixtureOptions options;
  options.order = {.shuffle = shuffle, .seed = 6, .sample_count = epoch_samples};
  options.parts = std::move(parts);
  return options;
}

TEST(MixtureTest, slots_are_dealt_by_largest_remainder) {
  EXPECT_EQ(slots_of({1}), (Slots{65536}));
  EXPECT_EQ(slots_of({1, 1}), (Slots{32768, 32768}));
  EXPECT_EQ(slots_of({1, 1, 1}), (Slots{21846, 21845, 21845}));
  EXPECT_EQ(slots_of({0.7, 0.2, 0.1}), (Slots{45875, 13107, 6554}));
  EXPECT_EQ(slots_of({7, 2, 1}), slots_of({0.7, 0.2, 0.1}));
  EXPECT_EQ(slots_of({65535, 1}), (Slots{65535, 1}));
  EXPECT_EQ(slots_of({1e300, 1e300, 2e300}), (Slots{16384, 16384, 32768}));
  EXPECT_EQ(slots_of({5e-324, 5e-324}), (Slots{32768, 32768}));
  EXPECT_EQ(slots_of(std::vector<double>(65536, 0.3)), Slots(65536, 1));
}

TEST(MixtureTest, slots_are_within_one_of_the_exact_share_and_add_up) {
  Numbers numbers(5);
  for (int i = 0; i < 200; ++i) {
    std::vector<double> weights(numbers.from_to(1, 50));
    double sum = 0;
    for (double& weight : weights)
      sum += weight = static_cast<double>(numbers.from_to(1000, 100'000)) / 977.0;
    const Slots slots = slots_of(weights);
    std::uint64_t dealt = 0;
    for (std::size_t d = 0; d < weights.size(); ++d) {
      EXPECT_NEAR(slots[d], weights[d] / sum * 65536.0, 1.0001);
      dealt += slots[d];
    }
    EXPECT_EQ(dealt, kMixtureSlots);
  }
}

TEST(MixtureTest, weights_that_make_no_share_are_refused_by_number) {
  const auto refusal = [](const std::vector<double>& weights) {
    const auto slots = mixture_slots(weights);
    EXPECT_FALSE(slots.ok());
    EXPECT_EQ(slots.status().code(), Code::invalid_argument);
    return std::string(slots.status().message());
  };
  EXPECT_NE(refusal({}).find("no datasets"), std::string::npos);
  for (const double bad : {0.0, -1.0, std::numeric_limits<double>::infinity(),
                           std::numeric_limits<double>::quiet_NaN()})
    EXPECT_NE(refusal({1, bad}).find("dataset 1: a weight is a number above 0"), std::string::npos);
  EXPECT_NE(refusal({1, 1, 1e-9}).find("dataset 2"), std::string::npos);
  EXPECT_NE(refusal(std::vector<double>(65537, 1)).find("65537 datasets"), std::string::npos);

  // What the message asks for is enough.
  const std::string message = refusal({2, 1, 1e-9});
  const std::string_view asked = "give it at least ";
  const double enough = std::stod(message.substr(message.find(asked) + asked.size()));
  EXPECT_EQ(slots_of({2, 1, enough})[2], 1U);
}

TEST(MixtureTest, shares_are_exact_in_every_cycle) {
  const auto options = mixture({{1000, 0.7}, {70'000, 0.2}, {5, 0.1}}, 3 * kMixtureSlots + 17);
  const auto order = mixture_of(options);
  EXPECT_EQ(order->dataset_count(), 3U);
  std::vector<SampleRef> cycle(kMixtureSlots);
  // Cycles run on through epochs: the second one here begins in epoch 1.
  for (const std::uint64_t epoch : {0U, 1U}) {
    order->fill(epoch, epoch == 0 ? 0 : kMixtureSlots - 17, cycle);
    std::vector<std::uint64_t> seen(3);
    for (const SampleRef ref : cycle) ++seen[ref.dataset];
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{45875, 13107, 6554})) << "epoch " << epoch;
  }
}

TEST(MixtureTest, every_dataset_is_gone_through_completely_before_it_begins_again) {
  for (const Shuffle shuffle : {Shuffle::off, Shuffle::global, Shuffle::block}) {
    const std::vector<MixturePart> parts = {{300, 1}, {21'846, 1}, {50'000, 1}};
    const auto order = mixture_of(mixture(parts, 4 * kMixtureSlots, shuffle));
    // After whole cycles each dataset has had as many uses as it has slots, and each of its
    // samples one more or one less than the others.
    std::vector<std::vector<std::uint64_t>> uses;
    for (const MixturePart& part : parts) uses.emplace_back(part.sample_count);
    for (const SampleRef ref : epoch_of(*order, 0)) ++uses[ref.dataset].at(ref.sample);
    const Slots slots = slots_of({1, 1, 1});
    for (std::size_t d = 0; d < parts.size(); ++d) {
      const std::uint64_t times = 4 * std::uint64_t{slots[d]} / parts[d].sample_count;
      const auto [least, most] = std::ranges::minmax(uses[d]);
      EXPECT_GE(least, times) << shuffle_name(shuffle) << ", dataset " << d;
      EXPECT_LE(most, times + 1) << shuffle_name(shuffle) << ", dataset " << d;
    }
  }
}

TEST(MixtureTest, a_dataset_is_in_another_order_each_time_and_not_in_that_of_its_twin) {
  const auto order = mixture_of(mixture({{kMixtureSlots / 2, 1}, {kMixtureSlots / 2, 1}}));
  std::vector<std::vector<std::uint64_t>> orders;
  for (std::uint64_t epoch = 0; epoch < 2; ++epoch) {
    std::vector<std::vector<std::uint64_t>> of(2);
    for (const SampleRef ref : epoch_of(*order, epoch)) of[ref.dataset].push_back(ref.sample);
    orders.insert(orders.end(), of.begin(), of.end());
  }
  for (std::size_t a = 0; a < orders.size(); ++a) {
    std::vector<std::uint64_t> sorted = orders[a];
    std::ranges::sort(sorted);
    EXPECT_EQ(std::ranges::unique(sorted).begin(), sorted.end());
    EXPECT_EQ(sorted.size(), kMixtureSlots / 2);
    for (std::size_t b = 0; b < a; ++b) EXPECT_NE(orders[a], orders[b]);
  }
}

TEST(MixtureTest, an_epoch_is_the_sum_unless_told_otherwise) {
  EXPECT_EQ(mixture_of(mixture({{30, 1}, {70, 5}}))->epoch_samples(), 100U);
  EXPECT_EQ(mixture_of(mixture({{30, 1}, {70, 5}}, 12))->epoch_samples(), 12U);
}

TEST(MixtureTest, datasets_alternate_as_chance_would_have_it) {
  const auto order = mixture_of(mixture({{1000, 1}, {1000, 1}}, 4 * kMixtureSlots));
  std::vector<std::uint64_t> pairs(4);
  const std::vector<SampleRef> samples = epoch_of(*order, 0);
  for (std::size_t p = 1; p < samples.size(); p += 2)
    ++pairs[2 * samples[p - 1].dataset + samples[p].dataset];
  EXPECT_LT(unevenness(pairs), 4);
}

TEST(MixtureTest, by_the_batch_or_one_by_one_it_is_the_same_and_goes_round) {
  for (const Shuffle shuffle :
       {Shuffle::off, Shuffle::global, Shuffle::block, Shuffle::resampled}) {
    const auto order = mixture_of(mixture({{1000, 2}, {333, 1}}, 65'600, shuffle));
    std::vector<SampleRef> filled(200);
    for (const std::uint64_t first : {0U, 65'450U, 65'599U, 131'200U}) {
      order->fill(3, first, filled);
      for (std::size_t k = 0; k < filled.size(); ++k) {
        ASSERT_EQ(filled[k], order->at(3, first + k));
        ASSERT_EQ(filled[k], order->at(3, (first + k) % 65'600));
      }
    }
  }
}

TEST(MixtureTest, it_says_when_a_sample_is_used_next) {
  // The first dataset wraps within a cycle, the second takes several cycles.
  const auto order = mixture_of(mixture({{700, 0.1}, {90'000, 0.9}}, 150'000));
  std::vector<SampleRef> line(450'000);
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
    order->fill(epoch, 0, std::span(line).subspan(150'000 * epoch, 150'000));
  Numbers numbers(6);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t from = numbers.below(200'000);
    const SampleRef sample = line[from + numbers.below(50)];
    const auto next = order->next_use(from / 150'000, from % 150'000, sample);
    const auto found =
        std::find(line.begin() + static_cast<std::ptrdiff_t>(from), line.end(), sample);
    ASSERT_TRUE(next.has_value());
    ASSERT_EQ(*next, static_cast<std::uint64_t>(found - line.begin()) - from);
  }
  EXPECT_EQ(order->next_use(0, 0, {.dataset = 2, .sample = 0}), std::nullopt);
  EXPECT_EQ(order->next_use(0, 0, {.dataset = 0, .sample = 700}), std::nullopt);
}

TEST(MixtureTest, the_farthest_positions_are_safe_to_ask_for) {
  const auto order = mixture_of(mixture({{7, 1}, {std::uint64_t{1} << 61, 3}}));
  for (const std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{7}, UINT64_MAX}) {
    for (const std::uint64_t position : {std::uint64_t{1'000'000'000'000'000}, UINT64_MAX}) {
      const SampleRef ref = order->at(epoch, position);
      EXPECT_LT(ref.sample, ref.dataset == 0 ? 7U : std::uint64_t{1} << 61);
      EXPECT_EQ(order->next_use(epoch, position, ref), 0U);
    }
  }
}

/// A line has 2^64 positions. A use beyond them is not found, and not made up either.
TEST(MixtureTest, a_use_at_the_end_of_all_numbers_is_true_or_unknown) {
  struct Case {
    std::vector<MixturePart> parts;
    std::uint64_t from;
  };
  const std::uint64_t large = std::uint64_t{1} << 50;
  for (const Case& at : {Case{{{large, 1}, {large, 65'535}}, 1},
                         Case{{{7, 1}, {std::uint64_t{1} << 61, 3}}, UINT64_MAX},
                         Case{{{std::uint64_t{1} << 62, 1}}, UINT64_MAX}}) {
    const auto order = mixture_of(mixture(at.parts));
    const std::uint64_t samples = order->epoch_samples();
    int unknown = 0;
    for (std::uint32_t dataset = 0; dataset < at.parts.size(); ++dataset)
      for (std::uint64_t sample = 0; sample < 7; ++sample) {
        const SampleRef ref = {.dataset = dataset, .sample = sample};
        const auto next = order->next_use(at.from / samples, at.from % samples, ref);
        if (!next) {
          ++unknown;
          continue;
        }
        ASSERT_LE(*next, UINT64_MAX - at.from);
        EXPECT_EQ(order->at((at.from + *next) / samples, (at.from + *next) % samples), ref);
      }
    EXPECT_GT(unknown, 0);
  }
}

TEST(MixtureTest, what_makes_no_mixture_is_refused_with_the_reason) {
  const auto refusal = [](const MixtureOptions& options) {
    const auto order = make_mixture_order(options);
    EXPECT_FALSE(order.ok());
    return std::string(order.status().message());
  };
  EXPECT_NE(refusal(mixture({})).find("no datasets"), std::string::npos);
  EXPECT_NE(refusal(mixture({{1, 1}, {0, 1}})).find("dataset 1: there are no samples"),
            std::string::npos);
  EXPECT_NE(refusal(mixture({{std::uint64_t{1} << 62, 1}, {1, 1}})).find("2^62"),
            std::string::npos);
  EXPECT_NE(refusal(mixture({{1, 1}, {1, -2}})).find("dataset 1"), std::string::npos);
  MixtureOptions lanes = mixture({{10, 1}}, 0, Shuffle::block);
  lanes.order.lanes = 2;
  lanes.order.deal_samples = 4;
  EXPECT_NE(refusal(lanes).find("lanes are not dealt in a mixture"), std::string::npos);
}

TEST(MixtureTest, its_fingerprint_depends_on_datasets_their_order_and_their_shares) {
  const std::vector<Digest128> two = {{1, 2}, {3, 4}};
  const std::vector<Digest128> swapped = {{3, 4}, {1, 2}};
  const std::vector<MixturePart> parts = {{10, 1}, {20, 3}};
  const auto print = [](const std::vector<Digest128>& digests,
                        const std::vector<MixturePart>& list) {
    const auto digest = mixture_fingerprint(digests, list);
    EXPECT_TRUE(digest.ok());
    return digest.ok() ? digest->hex() : "";
  };
  const std::set<std::string> different = {
      print(two, parts), print(swapped, parts), print(two, {{10, 1}, {20, 2}}),
      print(two, {{11, 1}, {20, 3}}), print({{1, 2}}, {{10, 1}})};
  EXPECT_EQ(different.size(), 5U);
  EXPECT_EQ(print(two, {{10, 2}, {20, 6}}), print(two, parts));  // the same shares
  EXPECT_FALSE(mixture_fingerprint(two, {}).ok());
  // Kept for ever: it is in cursors.
  EXPECT_EQ(print(two, parts), "eb6ee8c3e74fc93a1f190f9b8a2c19cd");
}

}  // namespace
}  // namespace stoker::testing
