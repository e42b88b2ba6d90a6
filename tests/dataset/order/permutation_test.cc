#include "dataset/order/permutation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "dataset/order/divider.h"
#include "dataset/order_support.h"

namespace stoker::testing {
namespace {

TEST(PermutationTest, every_count_up_to_5000_is_permuted_and_inverted) {
  for (std::uint64_t count = 1; count <= 5000; ++count) {
    const Permutation permuted(count, key_of_epoch(count));
    for (std::uint64_t position = 0; position < count; ++position) {
      const std::uint64_t item = permuted(position);
      // An inverse for every position means that no item is a duplicate.
      if (item >= count || permuted.inverse(item) != position)
        FAIL() << "count " << count << ", position " << position << ", item " << item;
    }
  }
}

TEST(PermutationTest, large_counts_are_inverted_at_random_points) {
  Numbers numbers(1);
  for (int i = 0; i < 4000; ++i) {
    const std::uint64_t count = numbers.from_to(1, (std::uint64_t{1} << numbers.from_to(8, 62)));
    const Permutation permuted(count, {.low = numbers.next(), .high = numbers.next()});
    for (const std::uint64_t position :
         {std::uint64_t{0}, numbers.below(count), numbers.below(count), count - 1}) {
      const std::uint64_t item = permuted(position);
      ASSERT_LT(item, count);
      ASSERT_EQ(permuted.inverse(item), position) << count;
      ASSERT_EQ(permuted(permuted.inverse(position)), position) << count;
    }
  }
}

TEST(PermutationTest, every_permutation_of_up_to_six_items_is_equally_likely) {
  for (std::uint64_t count = 2; count <= 6; ++count) {
    std::uint64_t permutations = 1;
    for (std::uint64_t i = 2; i <= count; ++i) permutations *= i;
    std::vector<std::uint64_t> seen(permutations);
    for (std::uint64_t epoch = 0; epoch < 40 * permutations; ++epoch) {
      const Permutation permuted(count, key_of_epoch(epoch));
      std::array<std::uint64_t, 6> items = {};
      for (std::uint64_t p = 0; p < count; ++p) items[p] = permuted(p);
      std::uint64_t number = 0;  // of the permutation, counted in factorials
      for (std::uint64_t p = 0; p < count; ++p) {
        const auto smaller = std::count_if(items.begin() + static_cast<std::ptrdiff_t>(p) + 1,
                                           items.begin() + static_cast<std::ptrdiff_t>(count),
                                           [&](std::uint64_t item) { return item < items[p]; });
        number = number * (count - p) + static_cast<std::uint64_t>(smaller);
      }
      ++seen[number];
    }
    EXPECT_LT(unevenness(seen), 4) << count << " items";
    EXPECT_GT(*std::ranges::min_element(seen), 0U) << count << " items";
  }
}

TEST(PermutationTest, every_pair_of_positions_gets_every_pair_of_items_equally_often) {
  for (const std::uint64_t count : {2U, 3U, 4U, 5U, 7U, 8U, 13U, 16U}) {
    const std::uint64_t pairs = count * (count - 1);
    const auto pair = [&](std::uint64_t a, std::uint64_t b) {
      return a * (count - 1) + (b < a ? b : b - 1);
    };
    std::vector<std::vector<std::uint64_t>> seen(pairs, std::vector<std::uint64_t>(pairs));
    std::vector<std::uint64_t> items(count);
    for (std::uint64_t epoch = 0; epoch < 20 * pairs; ++epoch) {
      const Permutation permuted(count, key_of_epoch(epoch + 1'000'000));
      for (std::uint64_t p = 0; p < count; ++p) items[p] = permuted(p);
      for (std::uint64_t p = 0; p < count; ++p)
        for (std::uint64_t q = 0; q < count; ++q)
          if (p != q) ++seen[pair(p, q)][pair(items[p], items[q])];
    }
    for (const auto& counts : seen) EXPECT_LT(unevenness(counts), 5) << count << " items";
  }
}

TEST(PermutationTest, neighbours_are_any_pair_of_items_equally_often) {
  for (const std::uint64_t count : {31U, 64U, 100U, 129U, 200U, 256U}) {
    std::vector<std::uint64_t> seen(count * count);
    for (std::uint64_t epoch = 0; epoch < 8 * count; ++epoch) {
      const Permutation permuted(count, key_of_epoch(epoch + 2'000'000));
      std::uint64_t before = permuted(0);
      for (std::uint64_t p = 1; p < count; ++p) {
        const std::uint64_t item = permuted(p);
        ++seen[before * count + item];
        before = item;
      }
    }
    std::vector<std::uint64_t> pairs;
    for (std::uint64_t i = 0; i < seen.size(); ++i)
      if (i / count != i % count) pairs.push_back(seen[i]);
    EXPECT_LT(unevenness(pairs), 5) << count << " items";
  }
}

/// Six rounds and fewer fail here, by ten standard deviations: in a network of few bits two
/// positions that share a half are told apart last.
TEST(PermutationTest, the_difference_of_two_items_is_any_equally_often) {
  for (const std::uint64_t other : {16U, 1U, 17U}) {
    std::vector<std::uint64_t> seen(256);
    for (std::uint64_t epoch = 0; epoch < 1'000'000; ++epoch) {
      const Permutation permuted(
          256, {.low = internal::mix64(2 * epoch + 1), .high = internal::mix64(2 * epoch + 2)});
      ++seen[permuted(0) ^ permuted(other)];
    }
    EXPECT_EQ(seen[0], 0U);
    seen.erase(seen.begin());
    EXPECT_LT(unevenness(seen), 4) << "positions 0 and " << other;
  }
}

TEST(PermutationTest, beyond_that_positions_and_pairs_and_epochs_look_random) {
  for (const std::uint64_t count :
       {std::uint64_t{1000}, std::uint64_t{5000}, std::uint64_t{1} << 20, std::uint64_t{1'281'167},
        std::uint64_t{1} << 40}) {
    const auto bin = [&](std::uint64_t item, std::uint64_t bins) {
      return static_cast<std::uint64_t>(static_cast<double>(item) / static_cast<double>(count) *
                                        static_cast<double>(bins));
    };
    // 20 bins divide the small counts; in the large ones a bin more or less does not show.
    std::vector<std::uint64_t> alone(20), pair(400), epochs(400);
    std::uint64_t last = 0;
    for (std::uint64_t epoch = 0; epoch < 40'000; ++epoch) {
      const Permutation permuted(count, key_of_epoch(epoch + 3'000'000));
      const std::uint64_t item = bin(permuted(count / 3), 20);
      ++alone[item];
      ++pair[item * 20 + bin(permuted(count / 3 + 1), 20)];
      if (epoch > 0) ++epochs[last * 20 + item];
      last = item;
    }
    EXPECT_LT(unevenness(alone), 4) << count;
    EXPECT_LT(unevenness(pair), 4) << count;
    EXPECT_LT(unevenness(epochs), 4) << count;
  }
}

TEST(PermutationTest, position_ten_to_the_fifteenth_costs_what_position_0_does) {
  const Permutation power(std::uint64_t{1} << 51, key_of_epoch(1));
  EXPECT_EQ(power.rounds_at(0), Permutation::kRounds);
  EXPECT_EQ(power.rounds_at(1'000'000'000'000'000), Permutation::kRounds);

  const Permutation other((std::uint64_t{1} << 50) + 1, key_of_epoch(1));  // the most walking
  const auto rounds_from = [&](std::uint64_t position) {
    unsigned sum = 0;
    for (std::uint64_t i = 0; i < 4000; ++i) sum += other.rounds_at(position + i);
    return sum / 4000.0;
  };
  EXPECT_NEAR(rounds_from(0), 2.0 * Permutation::kRounds, 1);
  EXPECT_NEAR(rounds_from(1'000'000'000'000'000), 2.0 * Permutation::kRounds, 1);
}

TEST(PermutationTest, few_items_get_more_rounds) {
  EXPECT_EQ(Permutation(256, key_of_epoch(1)).rounds_at(3), Permutation::kRoundsSmall);
  EXPECT_EQ(Permutation(2048, key_of_epoch(1)).rounds_at(3), Permutation::kRoundsSmall);
  EXPECT_EQ(Permutation(4096, key_of_epoch(1)).rounds_at(3), Permutation::kRounds);
  EXPECT_EQ(Permutation(1, key_of_epoch(1)).rounds_at(0), 0U);
}

TEST(DividerTest, it_divides_as_the_processor_does) {
  Numbers numbers(2);
  const auto check = [](std::uint64_t number, std::uint64_t divisor) {
    const auto [quotient, remainder] = internal::Divider(divisor)(number);
    ASSERT_EQ(quotient, number / divisor) << number << " by " << divisor;
    ASSERT_EQ(remainder, number % divisor) << number << " by " << divisor;
  };
  for (std::uint64_t divisor = 1; divisor < 200; ++divisor)
    for (std::uint64_t number = 0; number < 200; ++number) {
      check(number, divisor);
      check(UINT64_MAX - number, divisor);
      check(UINT64_MAX - number, UINT64_MAX - divisor + 1);
    }
  for (int i = 0; i < 100'000; ++i) {
    const std::uint64_t divisor = (numbers.next() >> numbers.below(64)) | 1;
    const std::uint64_t multiple = numbers.next() / divisor * divisor;  // the borders
    check(multiple, divisor);
    check(multiple - 1, divisor);
    check(numbers.next() >> numbers.below(64), divisor);
  }
}

}  // namespace
}  // namespace stoker::testing
