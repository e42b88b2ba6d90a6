#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "stoker/units.h"

namespace stoker {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(UnitsFormatTest, sizes_keep_three_digits) {
  EXPECT_EQ(format_bytes(0), "0 B");
  EXPECT_EQ(format_bytes(999), "999 B");
  EXPECT_EQ(format_bytes(1023), "1023 B");
  EXPECT_EQ(format_bytes(1024), "1 KiB");
  EXPECT_EQ(format_bytes(1536), "1.5 KiB");
  EXPECT_EQ(format_bytes(1'610'612'736), "1.5 GiB");
  EXPECT_EQ(format_bytes(100 * 1024), "100 KiB");
  EXPECT_EQ(format_bytes(kMax), "16384 PiB");
  EXPECT_EQ(format_bytes_decimal(1'610'612'736), "1.61 GB");
  EXPECT_EQ(format_bytes_decimal(3'840'755'982'336), "3.84 TB");
}

TEST(UnitsFormatTest, rounding_up_moves_to_the_next_unit) {
  EXPECT_EQ(format_bytes((1U << 20) - 1), "1 MiB");
  EXPECT_EQ(format_bytes_decimal(999'999), "1 MB");
  EXPECT_EQ(format_bytes_decimal(999'499), "999 KB");
  EXPECT_EQ(format_duration(milliseconds(59'960)), "1 min");
  EXPECT_EQ(format_duration(nanoseconds(9'996)), "10 us");
  EXPECT_EQ(format_duration(nanoseconds(99'960)), "100 us");
}

TEST(UnitsFormatTest, rates_are_decimal) {
  EXPECT_EQ(format_rate(4'970'000'000), "4.97 GB/s");
  EXPECT_EQ(format_rate(49'700'000'000), "49.7 GB/s");
  EXPECT_EQ(format_rate(0), "0 B/s");
}

TEST(UnitsFormatTest, durations_keep_three_digits) {
  EXPECT_EQ(format_duration(nanoseconds(0)), "0 ns");
  EXPECT_EQ(format_duration(microseconds(1230)), "1.23 ms");
  EXPECT_EQ(format_duration(seconds(45)), "45 s");
  EXPECT_EQ(format_duration(minutes(90)), "1.5 h");
  EXPECT_EQ(format_duration(-microseconds(1230)), "-1.23 ms");
  EXPECT_EQ(format_duration(nanoseconds::max()), "106752 d");
  EXPECT_EQ(format_duration(nanoseconds::min()), "-106752 d");
}

TEST(UnitsFormatTest, counts_have_no_unit) {
  EXPECT_EQ(format_count(0), "0");
  EXPECT_EQ(format_count(999), "999");
  EXPECT_EQ(format_count(174'000), "174k");
  EXPECT_EQ(format_count(174'499), "174k");
  EXPECT_EQ(format_count(1'500'000), "1.5M");
  EXPECT_EQ(format_count(kMax), "18.4E");
}

TEST(UnitsFormatTest, exact_forms_use_the_largest_unit_that_divides) {
  EXPECT_EQ(format_bytes_exact(0), "0");
  EXPECT_EQ(format_bytes_exact(1536), "1536");
  EXPECT_EQ(format_bytes_exact(4096), "4KiB");
  EXPECT_EQ(format_bytes_exact(100'000'000), "100MB");
  EXPECT_EQ(format_rate_exact(1536), "1536B/s");
  EXPECT_EQ(format_rate_exact(0), "0B/s");
  EXPECT_EQ(format_duration_exact(nanoseconds(0)), "0s");
  EXPECT_EQ(format_duration_exact(microseconds(1500)), "1500us");
  EXPECT_EQ(format_duration_exact(minutes(90)), "90min");
  EXPECT_EQ(format_duration_exact(-seconds(1)), "-1s");
  EXPECT_EQ(format_duration_exact(nanoseconds::min()), "-9223372036854775808ns");
}

TEST(UnitsFormatTest, exact_forms_read_back_as_the_same_value) {
  std::mt19937_64 random(42);
  const auto check = [](std::uint64_t value) {
    SCOPED_TRACE(value);
    EXPECT_EQ(*parse_bytes(format_bytes_exact(value)), value);
    EXPECT_EQ(*parse_rate(format_rate_exact(value)), value);
    const nanoseconds duration(value >> 1);  // the range of nanoseconds is half as large
    EXPECT_EQ(*parse_duration(format_duration_exact(duration)), duration);
  };
  check(kMax);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t value = random() >> (random() % 64);  // every magnitude, not just large
    check(value);
    check(value << (random() % 64));        // multiples of binary units
    check(value % 10'000 * 1'000'000'000);  // and of decimal ones
  }
}

TEST(UnitsFormatTest, bytes_per_second_is_exact_and_saturates) {
  EXPECT_EQ(bytes_per_second(1'000'000, milliseconds(1)), 1'000'000'000);
  EXPECT_EQ(bytes_per_second(1, seconds(3)), 0);
  EXPECT_EQ(bytes_per_second(kMax, seconds(1)), kMax);  // the product alone needs 94 bits
  EXPECT_EQ(bytes_per_second(kMax, nanoseconds(1)), kMax);
  EXPECT_EQ(bytes_per_second(5, nanoseconds(0)), 0);
  EXPECT_EQ(bytes_per_second(5, nanoseconds(-1)), 0);
}

}  // namespace
}  // namespace stoker
