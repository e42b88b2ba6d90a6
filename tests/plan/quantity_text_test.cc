#include "plan/quantity_text.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker::plan {
namespace {

double parsed(std::string_view text, Unit unit) {
  const Result<double> count = parse_quantity(text, unit);
  EXPECT_TRUE(count.ok()) << count.status().message();
  return count.ok() ? *count : -1;
}

std::string parse_error(std::string_view text, Unit unit) {
  const Result<double> count = parse_quantity(text, unit);
  return count.ok() ? "" : std::string(count.status().message());
}

TEST(QuantityText, every_unit_is_read_as_people_write_it) {
  EXPECT_EQ(parsed("70e9", Unit::number), 70e9);
  EXPECT_EQ(parsed("2M", Unit::number), 2e6);
  EXPECT_EQ(parsed("95%", Unit::share), 0.95);
  EXPECT_EQ(parsed("130KB", Unit::bytes), 130e3);
  EXPECT_EQ(parsed("8KiB", Unit::bytes), 8192);
  EXPECT_EQ(parsed("114660.07B", Unit::bytes), 114660.07);
  EXPECT_EQ(parsed("0.5B", Unit::bytes), 0.5);  // of a parameter in 4 bits
  EXPECT_EQ(parsed("1e12B", Unit::bytes), 1e12);
  EXPECT_EQ(parsed("130 kB", Unit::bytes), 130e3);
  EXPECT_EQ(parsed("2EB", Unit::bytes), 2e18);
  EXPECT_EQ(parsed("1EiB", Unit::bytes), 0x1p60);
  EXPECT_EQ(parsed("6.5GB/s", Unit::bytes_per_second), 6.5e9);
  EXPECT_EQ(parsed("771.6B/s", Unit::bytes_per_second), 771.6);
  EXPECT_EQ(parsed("200ms", Unit::seconds), 0.2);
  EXPECT_EQ(parsed("375us", Unit::seconds), 375e-6);
  EXPECT_EQ(parsed("1.5h", Unit::seconds), 5400);
  EXPECT_EQ(parsed("200000d", Unit::seconds), 200000 * 86400.0);
  EXPECT_EQ(parsed("48/d", Unit::per_second), 48 / 86400.0);
  EXPECT_EQ(parsed("900e3/s", Unit::per_second), 900e3);
  for (const char* text : {"$25.60", "25.60USD", "25.60 USD", "25.60$"})
    EXPECT_EQ(parsed(text, Unit::money), 25.60) << text;
  for (const char* text : {"$3/h", "3USD/h", "3$/h"})
    EXPECT_EQ(parsed(text, Unit::money_per_second), 3 / 3600.0) << text;
  EXPECT_EQ(parsed("989.4TFLOP/s", Unit::flop_per_second), 989.4e12);
  EXPECT_EQ(parsed("0.023USD/GiB", Unit::money_per_byte), 0.023 / 0x1p30);
  EXPECT_EQ(parsed("$21/TB", Unit::money_per_byte), 21e-12);
}

TEST(QuantityText, a_refusal_says_what_the_text_is_instead) {
  EXPECT_EQ(parse_error("130KB/s", Unit::bytes),
            "\"130KB/s\" is a rate of bytes; give a size, like 130KB or 4MiB");
  EXPECT_EQ(parse_error("130", Unit::bytes),
            "\"130\" has no unit; give a size, like 130KB or 4MiB");
  EXPECT_EQ(parse_error("5s", Unit::bytes_per_second),
            "\"5s\" is a time; give a rate of bytes, like 6.5GB/s");
  EXPECT_EQ(parse_error("5GB", Unit::bytes_per_second),
            "\"5GB\" is a size; give a rate of bytes, like 6.5GB/s");
  EXPECT_EQ(parse_error("3USD", Unit::money_per_second),
            "\"3USD\" is an amount of money; give a price of time, like 3USD/h");
  EXPECT_EQ(parse_error("0.023USD", Unit::money_per_byte),
            "\"0.023USD\" is an amount of money; give a price of bytes, like 0.023USD/GiB");
  EXPECT_EQ(parse_error("3USD/GB", Unit::money_per_second),
            "\"3USD/GB\" is a price of bytes; give a price of time, like 3USD/h");
  EXPECT_EQ(parse_error("-1s", Unit::seconds),
            "\"-1s\" is negative; give a time, like 200ms, 60s or 2h");
  EXPECT_EQ(parse_error("70B", Unit::number),
            "\"70B\" is a size; give a number, like 8, 0.5, 70e9 or 2M");
}

TEST(QuantityText, a_refusal_of_bytes_says_once_what_the_unit_may_mean) {
  EXPECT_EQ(
      parse_error("4G", Unit::bytes),
      "\"4G\" may mean GiB (powers of 1024) or GB (of 1000); give a size, like 130KB or 4MiB");
  EXPECT_EQ(parse_error("2g/s", Unit::bytes_per_second),
            "\"2g/s\" may mean GiB (powers of 1024) or GB (of 1000); give a rate of bytes, like "
            "6.5GB/s");
  for (const char* text : {"100Gb/s", "100 Gbit/s", "100Gbps"})
    EXPECT_NE(parse_error(text, Unit::bytes_per_second).find("counts bits: a byte has 8"),
              std::string::npos)
        << text;
  EXPECT_EQ(parse_error("1 parsec", Unit::bytes),
            "\"1 parsec\" cannot be read; give a size, like 130KB or 4MiB");
}

TEST(QuantityText, refuses_everything_that_is_not_a_plain_number) {
  for (const char* text :
       {"nan", "inf", "1e999", "0x10", "", " ", "1 000", "1,000", "+1", "1.", ".5", "1e", "one"}) {
    EXPECT_NE(parse_error(text, Unit::number), "") << text;
    EXPECT_NE(parse_error(text, Unit::share), "") << text;
    EXPECT_NE(parse_error(text, Unit::bytes), "") << text;
    EXPECT_NE(parse_error(text, Unit::money), "") << text;
  }
  EXPECT_NE(parse_error("4K", Unit::bytes).find("KiB (powers of 1024)"), std::string::npos);
  EXPECT_NE(parse_error("9e307PB", Unit::bytes).find("too large"), std::string::npos);
  EXPECT_EQ(parse_error("\x1b[31m", Unit::number).find('\x1b'), std::string::npos);
}

TEST(QuantityText, five_digits_and_both_kinds_of_gigabytes) {
  EXPECT_EQ(format_quantity(1.3312e9, Unit::bytes_per_second), "1.3312 GB/s (1.2398 GiB/s)");
  EXPECT_EQ(format_quantity(8388608, Unit::bytes_per_second), "8.3886 MB/s (8 MiB/s)");
  EXPECT_EQ(format_quantity(771.604938, Unit::bytes_per_second), "771.6 B/s");
  EXPECT_EQ(format_quantity(10240, Unit::per_second), "10,240/s");
  EXPECT_EQ(format_quantity(48 / 86400.0, Unit::per_second), "2/h");
  EXPECT_EQ(format_quantity(0.872, Unit::share), "87.2 %");
  EXPECT_EQ(format_quantity(1138.4199, Unit::seconds), "1,138.42 s (18.974 min)");
  EXPECT_EQ(format_quantity(195312.5, Unit::seconds), "195,312.5 s (2.2606 d)");
  EXPECT_EQ(format_quantity(553846154, Unit::seconds), "553,846,154 s (6,410.3 d, 17.562 years)");
  EXPECT_EQ(format_quantity(0.9999999999, Unit::seconds), "1 s");
  EXPECT_EQ(format_quantity(0.2, Unit::seconds), "200 ms");
  EXPECT_EQ(format_quantity(17203.2, Unit::money), "$17,203.20");
  EXPECT_EQ(format_quantity(256000, Unit::money), "$256,000");
  EXPECT_EQ(format_quantity(0.0004, Unit::money), "$0.0004");
  EXPECT_EQ(format_quantity(3 / 3600.0, Unit::money_per_second), "$3/h");
  EXPECT_EQ(format_quantity(0.023 / 0x1p30, Unit::money_per_byte), "$0.02142/GB");
  EXPECT_EQ(format_quantity(16000e12, Unit::flop_per_second), "16,000 TFLOP/s");
  EXPECT_EQ(format_quantity_short(1.3312e9, Unit::bytes_per_second), "1.3312 GB/s");
}

}  // namespace
}  // namespace stoker::plan
