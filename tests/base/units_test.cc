#include "stoker/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace stoker {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

struct SizeCase {
  const char* text;
  std::uint64_t bytes;
};

TEST(UnitsTest, sizes_are_read_exactly) {
  constexpr SizeCase kCases[] = {
      {"0", 0},
      {"4096", 4096},
      {"4096B", 4096},
      {"007", 7},
      {"4KiB", 4096},
      {"4KB", 4000},
      {"10 MB", 10'000'000},
      {"1MiB", 1'048'576},
      {"200GiB", 214'748'364'800},
      {"1.5GB", 1'500'000'000},
      {"0.1GB", 100'000'000},  // 0.1 has no binary representation
      {"1.5KiB", 1536},
      {"2TB", 2'000'000'000'000},
      {"2TiB", 2'199'023'255'552},
      {"3PB", 3'000'000'000'000'000},
      {"3PiB", 3'377'699'720'527'872},
      {"1.000000000000000000000000KB", 1000},
      {"9007199254740993", 9'007'199'254'740'993},  // 2^53 + 1, which a double cannot hold
      {"18446744073709551615", kMax},
      {"16383.99999999999999911182158029987GiB", 17'592'186'044'415},  // 2^44 - 1, cut below it
  };
  for (const SizeCase& size : kCases) {
    const Result<std::uint64_t> bytes = parse_bytes(size.text);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_EQ(*bytes, size.bytes) << size.text;
  }
}

TEST(UnitsTest, fractions_are_rounded_down) {
  EXPECT_EQ(*parse_bytes("1.3GiB"), 1'395'864'371);  // .2 bytes dropped
  EXPECT_EQ(*parse_bytes("1.0009KB"), 1000);
  EXPECT_EQ(*parse_duration("0.3333333333s"), nanoseconds(333'333'333));
}

// One byte in PiB takes 50 digits: dropping any of them would give 0, and a double would round.
TEST(UnitsTest, fractions_count_every_digit) {
  EXPECT_EQ(*parse_bytes("0.00000000000000088817841970012523233890533447265625PiB"), 1);
  EXPECT_EQ(*parse_bytes("3.00000000000000088817841970012523233890533447265625PiB"),
            3'377'699'720'527'873);
}

TEST(UnitsTest, fraction_of_the_smallest_unit_is_refused) {
  for (const char* text : {"1.5", "1.0", "1.5B", "0.5 B"}) {
    EXPECT_EQ(parse_bytes(text).status().code(), Code::invalid_argument) << text;
  }
  EXPECT_FALSE(parse_duration("1.5ns").ok());
}

TEST(UnitsTest, something_that_rounds_to_nothing_is_refused) {
  EXPECT_FALSE(parse_bytes("0.0001KB").ok());
  EXPECT_TRUE(parse_bytes("0.0000KB").ok());
  EXPECT_TRUE(parse_bytes("0.001KB").ok());
}

TEST(UnitsTest, anything_but_a_plain_number_and_a_unit_is_refused) {
  const char* const kTexts[] = {"",      " ",     "GiB",   "B",      "-1",      "+1",    "-1KB",
                                "1 ",    " 1",    "1  KB", "1\tKB",  "1KB ",    "1KBx",  "1KB/s",
                                "1e3",   "1E3KB", "0x10",  "inf",    "nan",     "1,5GB", "1_000",
                                "1,000", ".5GB",  "1.GB",  "1..5GB", "1.5.5GB", "1kb",   "1gib",
                                "1GIB",  "1Gib",  "1kB",   "1EB",    "1.5 ",    "１KB",  "1 KB 2"};
  for (const char* text : kTexts) {
    const Result<std::uint64_t> bytes = parse_bytes(text);
    EXPECT_FALSE(bytes.ok()) << "\"" << text << "\" was read as " << *bytes;
    EXPECT_FALSE(parse_rate(std::string(text) + "/s").ok()) << text;
  }
  EXPECT_FALSE(parse_bytes(std::string_view("1\0KB", 4)).ok());
}

TEST(UnitsTest, what_does_not_fit_is_refused) {
  for (const char* text : {"18446744073709551616", "16384PiB", "18446744073709551615KB",
                           "18446.744073709551616PB", "99999999999999999999999999999999999"}) {
    const Result<std::uint64_t> bytes = parse_bytes(text);
    ASSERT_FALSE(bytes.ok()) << text;
    EXPECT_NE(bytes.status().message().find("too large"), std::string_view::npos);
  }
  EXPECT_EQ(*parse_bytes("18446.744073709551615PB"), kMax);
}

TEST(UnitsTest, bare_k_is_refused_with_a_hint) {
  for (const char* text : {"4K", "4k", "4 K"}) {
    const Status status = parse_bytes(text).status();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find("KiB (powers of 1024) or KB"), std::string_view::npos)
        << status.message();
  }
  EXPECT_NE(parse_rate("1.5G/s").status().message().find("GiB"), std::string_view::npos);
}

TEST(UnitsTest, message_names_the_text_and_an_example) {
  EXPECT_EQ(parse_bytes("12 parsecs").status().message(),
            "size \"12 parsecs\": \"parsecs\" is not a unit; "
            "write it like \"200GiB\", \"1.5GB\" or \"4096\"");
  EXPECT_EQ(parse_rate("5GB").status().message(),
            "rate \"5GB\": does not end in \"/s\"; write it like \"1.5GB/s\" or \"200MiB/s\"");
}

TEST(UnitsTest, message_stays_short_and_printable) {
  const Status status = parse_bytes(std::string(100'000, '\xff')).status();
  EXPECT_LT(status.message().size(), 300);
  for (const char c : status.message()) EXPECT_TRUE(c >= ' ' && c <= '~');
}

TEST(UnitsTest, rates_are_sizes_per_second) {
  EXPECT_EQ(*parse_rate("1.5GB/s"), 1'500'000'000);
  EXPECT_EQ(*parse_rate("200MiB/s"), 209'715'200);
  EXPECT_EQ(*parse_rate("1 KB/s"), 1000);
  EXPECT_EQ(*parse_rate("0B/s"), 0);
}

TEST(UnitsTest, rate_without_a_unit_or_per_second_is_refused) {
  for (const char* text :
       {"1.5GB", "4096", "4096/s", "/s", "1GB/", "1GB/min", "1GB /s", "1GB/s "}) {
    EXPECT_FALSE(parse_rate(text).ok()) << text;
  }
}

TEST(UnitsTest, durations_are_read_exactly) {
  EXPECT_EQ(*parse_duration("10ns"), nanoseconds(10));
  EXPECT_EQ(*parse_duration("100us"), microseconds(100));
  EXPECT_EQ(*parse_duration("1.5ms"), microseconds(1500));
  EXPECT_EQ(*parse_duration("30s"), seconds(30));
  EXPECT_EQ(*parse_duration("30 min"), minutes(30));
  EXPECT_EQ(*parse_duration("2h"), hours(2));
  EXPECT_EQ(*parse_duration("1d"), days(1));
  EXPECT_EQ(*parse_duration("0s"), nanoseconds(0));
  EXPECT_EQ(*parse_duration("9223372036854775807ns"), nanoseconds::max());
}

TEST(UnitsTest, duration_without_a_known_unit_is_refused) {
  for (const char* text : {"30", "0", "30m", "30S", "30sec", "1.5", "-1s", "1h30min", "1 s "}) {
    EXPECT_EQ(parse_duration(text).status().code(), Code::invalid_argument) << text;
  }
}

TEST(UnitsTest, duration_that_does_not_fit_is_refused) {
  EXPECT_FALSE(parse_duration("9223372036854775808ns").ok());
  EXPECT_FALSE(parse_duration("106752d").ok());
  EXPECT_FALSE(parse_duration("18446744073709551616ns").ok());
}

}  // namespace
}  // namespace stoker
