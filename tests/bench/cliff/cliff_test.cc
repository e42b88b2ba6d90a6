#include "bench/cliff/cliff.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "bench/noise.h"

namespace stoker {
namespace {

constexpr std::uint64_t kWindowBytes = std::uint64_t{256} << 20;

/// Windows whose rate is `rate_of(i)`, each moved by up to `noise` of itself.
std::vector<RateWindow> make_windows(std::size_t count,
                                     const std::function<double(std::size_t)>& rate_of,
                                     double noise = 0, std::uint64_t seed = 1) {
  std::vector<RateWindow> windows;
  for (std::size_t i = 0; i < count; ++i) {
    const double random = static_cast<double>(mix_bits(seed * 1000 + i) >> 11) * 0x1p-53;
    const double rate = rate_of(i) * (1 + noise * (2 * random - 1));
    windows.push_back({kWindowBytes, nanoseconds(static_cast<std::int64_t>(
                                         static_cast<double>(kWindowBytes) * 1e9 / rate))});
  }
  return windows;
}

std::function<double(std::size_t)> step_at(std::size_t place, double before, double after) {
  return [=](std::size_t i) { return i < place ? before : after; };
}

TEST(CliffTest, flat_rate_has_none) {
  EXPECT_FALSE(find_cliff(make_windows(100, [](std::size_t) { return 3e9; })));
}

TEST(CliffTest, noise_alone_is_none) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_FALSE(find_cliff(make_windows(64, [](std::size_t) { return 3e9; }, 0.5, seed)));
  }
}

TEST(CliffTest, one_drop_is_found_at_its_place) {
  const auto cliff = find_cliff(make_windows(100, step_at(37, 3e9, 1e9)));
  ASSERT_TRUE(cliff);
  EXPECT_EQ(cliff->window, 37u);
  EXPECT_EQ(cliff->bytes_before, 37 * kWindowBytes);
  EXPECT_NEAR(cliff->bytes_per_s_before, 3e9, 1e6);
  EXPECT_NEAR(cliff->bytes_per_s_after, 1e9, 1e6);
  EXPECT_NEAR(cliff->drop(), 2.0 / 3, 0.01);
  EXPECT_NEAR(static_cast<double>(cliff->limit_bytes_per_s()), 0.95e9, 1e6);
}

TEST(CliffTest, drop_is_found_through_noise) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    const auto cliff = find_cliff(make_windows(100, step_at(60, 3e9, 1.5e9), 0.2, seed));
    ASSERT_TRUE(cliff);
    EXPECT_NEAR(static_cast<double>(cliff->window), 60, 1);
  }
}

TEST(CliffTest, slow_decline_is_none) {
  EXPECT_FALSE(find_cliff(
      make_windows(100, [](std::size_t i) { return 3e9 - 2e7 * static_cast<double>(i); }, 0.02)));
}

TEST(CliffTest, drop_at_the_end_needs_eight_windows_after_it) {
  EXPECT_TRUE(find_cliff(make_windows(100, step_at(92, 3e9, 1e9))));
  const auto late = find_cliff(make_windows(100, step_at(97, 3e9, 1e9)));
  EXPECT_FALSE(late) << "three slow windows may be anything";
}

TEST(CliffTest, too_few_windows_prove_nothing) {
  EXPECT_FALSE(find_cliff({}));
  EXPECT_FALSE(find_cliff(make_windows(15, step_at(7, 3e9, 1e9))));
  EXPECT_TRUE(find_cliff(make_windows(16, step_at(8, 3e9, 1e9))));
}

TEST(CliffTest, drop_of_less_than_a_quarter_is_none) {
  EXPECT_FALSE(find_cliff(make_windows(100, step_at(50, 3e9, 2.4e9))));
  EXPECT_TRUE(find_cliff(make_windows(100, step_at(50, 3e9, 2.2e9))));
}

TEST(CliffTest, rise_is_none) {
  EXPECT_FALSE(find_cliff(make_windows(100, step_at(50, 1e9, 3e9))));
}

TEST(CliffTest, windows_without_time_do_no_harm) {
  EXPECT_FALSE(find_cliff(std::vector<RateWindow>(32)));
}

}  // namespace
}  // namespace stoker
