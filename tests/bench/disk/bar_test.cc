#include "bench/disk/bar.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>

namespace stoker {
namespace {

TEST(BarTest, share_fills_columns_by_eighths) {
  EXPECT_EQ(format_bar(1, 4), "████");
  EXPECT_EQ(format_bar(0.5, 4), "██  ");
  EXPECT_EQ(format_bar(0.59375, 4), "██▍ ");  // 19 of 32 eighths
  EXPECT_EQ(format_bar(0, 4), "    ");
}

TEST(BarTest, little_is_not_shown_as_nothing) {
  EXPECT_EQ(format_bar(1e-9, 4), "▏   ");
}

TEST(BarTest, nonsense_stays_inside_the_width) {
  EXPECT_EQ(format_bar(7, 2), "██");
  EXPECT_EQ(format_bar(-1, 2), "  ");
  EXPECT_EQ(format_bar(std::numeric_limits<double>::quiet_NaN(), 2), "  ");
}

TEST(BarTest, sparkline_scales_to_the_largest) {
  EXPECT_EQ(format_sparkline(std::array{0.0, 50.0, 100.0}), "▁▅█");
  EXPECT_EQ(format_sparkline(std::array{0.0, 0.0}), "▁▁");
  EXPECT_EQ(format_sparkline({}), "");
}

}  // namespace
}  // namespace stoker
