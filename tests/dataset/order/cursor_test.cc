#include "stoker/cursor.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/hex.h"

namespace stoker::testing {
namespace {

Cursor example() {
  Cursor cursor;
  cursor.order = {.shuffle = Shuffle::block,
                  .seed = UINT64_MAX,
                  .sample_count = 1'281'167,
                  .block_samples = 512,
                  .window_blocks = 8,
                  .lanes = 64,
                  .deal_samples = 1024};
  cursor.fingerprint = *Digest128::from_hex("00112233445566778899aabbccddeeff");
  cursor.tail = Tail::pad;
  cursor.global_batch_size = 2048;
  cursor.epoch = 3;
  cursor.position = 204'800;
  return cursor;
}

Cursor plain() {
  Cursor cursor = example();
  cursor.order = {.shuffle = Shuffle::global, .seed = 7, .sample_count = 1'281'167};
  return cursor;
}

TEST(CursorTest, it_takes_at_most_128_bytes_and_reads_back_equal) {
  for (const Cursor& cursor : {example(), plain()}) {
    const std::vector<std::byte> bytes = encode_cursor(cursor);
    EXPECT_EQ(bytes.size(), kCursorBytes);
    EXPECT_LE(bytes.size(), 128U);
    const auto read = decode_cursor(bytes);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, cursor);
  }
}

TEST(CursorTest, as_json_it_reads_back_equal) {
  for (const Cursor& cursor : {example(), plain()}) {
    const auto read = parse_cursor(format_cursor(cursor));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, cursor);
  }
}

/// Both encodings are kept for ever: checkpoints hold them.
TEST(CursorTest, its_encodings_are_the_documented_ones) {
  EXPECT_EQ(format_cursor(example()),
            R"({"version":1,"shuffle":"block","seed":18446744073709551615,"epoch_samples":1281167,)"
            R"("block_samples":512,"window_blocks":8,"lanes":64,"deal_samples":1024,)"
            R"("fingerprint":"00112233445566778899aabbccddeeff","tail":"pad",)"
            R"("global_batch_size":2048,"epoch":3,"position":204800})");
  EXPECT_EQ(format_hex(encode_cursor(example())),
            "534b4355"  // magic
            "0100"      // version
            "02"        // block
            "03"        // pad
            "ffffffffffffffff"
            "8f8c130000000000"
            "0002000000000000"
            "0800000000000000"
            "4000000000000000"
            "0004000000000000"
            "ffeeddccbbaa9988"
            "7766554433221100"
            "0008000000000000"
            "0300000000000000"
            "0020030000000000"
            "f1e6f8c3cc59d16e");
}

TEST(CursorTest, numbers_that_only_block_order_needs_are_not_kept_for_others) {
  Cursor cursor = plain();
  cursor.order.lanes = 64;
  cursor.order.deal_samples = 1024;
  const auto bytes = decode_cursor(encode_cursor(cursor));
  const auto json = parse_cursor(format_cursor(cursor));
  ASSERT_TRUE(bytes.ok() && json.ok());
  EXPECT_EQ(*bytes, plain());
  EXPECT_EQ(*json, plain());
}

TEST(CursorTest, every_damaged_byte_and_every_other_length_is_refused) {
  const std::vector<std::byte> good = encode_cursor(example());
  for (std::size_t bit = 0; bit < 8 * good.size(); ++bit) {
    std::vector<std::byte> bytes = good;
    bytes[bit / 8] ^= std::byte{1} << bit % 8;
    const auto read = decode_cursor(bytes);
    ASSERT_FALSE(read.ok()) << "bit " << bit;
    EXPECT_EQ(read.status().code(),
              bit / 8 == 4 || bit / 8 == 5 ? read.status().code() : Code::corrupt);
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(decode_cursor(std::span(good).first(size)).ok());
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_cursor(longer).ok());
}

TEST(CursorTest, one_from_a_newer_stoker_is_unsupported_and_says_so) {
  std::vector<std::byte> bytes = encode_cursor(example());
  bytes[4] = std::byte{2};
  const auto read = decode_cursor(bytes);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.status().code(), Code::unsupported);
  const auto json = parse_cursor(R"({"version": 2, "spiral": true})");
  ASSERT_FALSE(json.ok());
  EXPECT_EQ(json.status().code(), Code::unsupported);
  EXPECT_NE(json.status().message().find("newer Stoker"), std::string::npos);
}

/// The example's JSON with one member replaced by the text of a value, or removed.
std::string with_member(const std::string& name, const std::string& value) {
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(format_cursor(example()));
  document.erase(name);
  std::string text = document.dump();
  if (!value.empty()) text.replace(text.size() - 1, 1, ",\"" + name + "\":" + value + "}");
  return text;
}

TEST(CursorTest, hostile_json_is_refused_with_the_place) {
  ASSERT_TRUE(parse_cursor(with_member("seed", "5")).ok());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "cursor"},
      {"null", "cursor"},
      {"[1]", "cursor"},
      {"{}", "version"},
      {std::string(100'000, '['), "cursor"},
      {format_cursor(example()) + "x", "cursor"},
      {format_cursor(example()).substr(0, 100), "cursor"},
      {with_member("version", "0"), "version 0"},
      {with_member("version", "\"1\""), "version"},
      {with_member("seed", ""), "seed"},
      {with_member("seed", "-1"), "seed"},
      {with_member("seed", "1.5"), "seed"},
      {with_member("seed", "18446744073709551616"), "seed"},
      {with_member("seed", "[5]"), "seed"},
      {with_member("seed", "true"), "seed"},
      {with_member("seed", "5,\"seed\":5"), "seed"},
      {with_member("extra", "5"), "extra"},
      {with_member("shuffle", "\"Block\""), "shuffle"},
      {with_member("shuffle", "2"), "shuffle"},
      {with_member("shuffle", "\"global\""), "do not fit its shuffle"},
      {with_member("tail", "\"\""), "tail"},
      {with_member("fingerprint", "\"00112233445566778899AABBCCDDEEFF\""), "fingerprint"},
      {with_member("fingerprint", "\"0011\""), "fingerprint"},
      {with_member("epoch_samples", "0"), "no samples"},
      {with_member("epoch_samples", "18446744073709551615"), "2^62"},
      {with_member("lanes", "0"), "do not fit"},
      {with_member("lanes", "7"), "7 lanes"},
      {with_member("deal_samples", "0"), "deal_samples"},
      {with_member("block_samples", "0"), "do not fit"},
      {with_member("global_batch_size", "0"), "global batch"},
      {with_member("global_batch_size", "18446744073709551615"), "global batch"},
      {with_member("position", "1281168"), "position 1281168"},
      {with_member("epoch", "18446744073709551615"), "is out of range"},
  };
  for (const auto& [text, part] : cases) {
    const auto read = parse_cursor(text);
    ASSERT_FALSE(read.ok()) << text;
    EXPECT_EQ(read.status().code(), Code::corrupt) << text;
    EXPECT_NE(read.status().message().find(part), std::string::npos) << text << "\n"
                                                                     << read.status().message();
  }
}

struct Change {
  std::string_view field;
  void (*apply)(Cursor&);
  std::string_view was_and_is;
  bool may_be_allowed;
};

const std::vector<Change> kChanges = {
    {"shuffle", [](Cursor& c) { c.order.shuffle = Shuffle::global; }, "was block and is global",
     false},
    {"seed", [](Cursor& c) { c.order.seed = 8; }, "was 18446744073709551615 and is 8", false},
    {"epoch_samples", [](Cursor& c) { c.order.sample_count = 5000; }, "was 1281167 and is 5000",
     false},
    {"block_samples", [](Cursor& c) { c.order.block_samples = 9; }, "was 512 and is 9", false},
    {"window_blocks", [](Cursor& c) { c.order.window_blocks = 9; }, "was 8 and is 9", false},
    {"lanes", [](Cursor& c) { c.order.lanes = 32; }, "was 64 and is 32", false},
    {"deal_samples", [](Cursor& c) { c.order.deal_samples = 64; }, "was 1024 and is 64", false},
    {"fingerprint", [](Cursor& c) { c.fingerprint.low = 5; },
     "was 00112233445566778899aabbccddeeff and is 00112233445566770000000000000005", true},
    {"tail", [](Cursor& c) { c.tail = Tail::wrap; }, "was pad and is wrap", true},
    {"global_batch_size", [](Cursor& c) { c.global_batch_size = 1024; }, "was 2048 and is 1024",
     true},
};

TEST(CursorTest, a_cursor_of_the_same_run_fits_wherever_it_stands) {
  Cursor run = example();
  run.epoch = 0;
  run.position = 0;
  EXPECT_TRUE(check_cursor(example(), run).ok());
  EXPECT_TRUE(compare_cursor(example(), run).empty());
}

TEST(CursorTest, each_difference_is_named_with_what_was_and_is_and_whether_it_may_be_allowed) {
  for (const Change& change : kChanges) {
    Cursor run = example();
    change.apply(run);
    const auto differences = compare_cursor(example(), run);
    ASSERT_EQ(differences.size(), 1U) << change.field;
    EXPECT_EQ(differences[0].field, change.field);
    EXPECT_EQ(differences[0].may_be_allowed, change.may_be_allowed);

    const Status status = check_cursor(example(), run);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    const std::string message(status.message());
    const std::string expected = std::string(change.field) + " " + std::string(change.was_and_is);
    EXPECT_NE(message.find(expected), std::string::npos) << message;
    EXPECT_EQ(message.find("(may be allowed)") != std::string::npos, change.may_be_allowed);

    const std::vector<std::string_view> allow = {change.field};
    EXPECT_EQ(check_cursor(example(), run, allow).ok(), change.may_be_allowed) << change.field;
    EXPECT_EQ(check_cursor(example(), example(), allow).ok(), change.may_be_allowed);
  }
}

TEST(CursorTest, several_differences_are_named_together) {
  Cursor run = example();
  for (const Change& change : kChanges)
    if (change.field != "shuffle") change.apply(run);
  const Status status = check_cursor(example(), run);
  for (const Change& change : kChanges)
    EXPECT_EQ(status.message().find(change.was_and_is) != std::string_view::npos,
              change.field != "shuffle")
        << change.field;
  const std::vector<std::string_view> allow = {"tail", "global_batch_size", "fingerprint"};
  const std::string message(check_cursor(example(), run, allow).message());
  EXPECT_EQ(message.find("tail"), std::string::npos) << message;
  EXPECT_NE(message.find("seed was"), std::string::npos) << message;
}

TEST(CursorTest, a_run_that_asks_for_no_lanes_takes_those_of_the_cursor) {
  Cursor run = example();
  run.order.lanes = 0;
  run.order.deal_samples = 0;
  run.order.block_samples = 0;
  run.order.window_blocks = 0;
  EXPECT_TRUE(check_cursor(example(), run).ok());
  run.global_batch_size = 4096;
  EXPECT_FALSE(check_cursor(example(), run).ok());
  const std::vector<std::string_view> allow = {"global_batch_size"};
  EXPECT_TRUE(check_cursor(example(), run, allow).ok());
}

TEST(CursorTest, what_may_be_allowed_is_listed_and_nothing_else_is_taken) {
  const auto listed = cursor_fields_that_may_be_allowed();
  EXPECT_EQ(std::vector<std::string_view>(listed.begin(), listed.end()),
            (std::vector<std::string_view>{"global_batch_size", "tail", "fingerprint"}));
  const std::vector<std::string_view> allow = {"batch"};
  const Status status = check_cursor(example(), example(), allow);
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("global_batch_size, tail, fingerprint"), std::string::npos);
}

}  // namespace
}  // namespace stoker::testing
