#include "stoker/io.h"

#include <gtest/gtest.h>

#include <array>

#include "api/shards.h"

namespace stoker {
namespace {

using testing::Folder;
using testing::must;
using testing::write_file;

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST(IoTest, ranges_of_several_files_are_read_in_one_call) {
  const Folder folder;
  write_file(folder.file("a"), "0123456789");
  write_file(folder.file("b"), "abcdef");
  std::array<std::byte, 3> own{};
  const std::array<FileRange, 4> ranges = {
      FileRange{.path = folder.file("b"), .offset_bytes = 4},
      FileRange{.path = folder.file("a"), .offset_bytes = 2, .size_bytes = 4},
      FileRange{.path = folder.file("a"), .offset_bytes = 7, .size_bytes = 3, .into = own},
      FileRange{.path = folder.file("a"), .offset_bytes = 3, .size_bytes = 0}};
  for (const EngineKind engine : {EngineKind::automatic, EngineKind::threads, EngineKind::sync}) {
    const RangeBytes read = must(read_ranges(ranges, {.engine = engine}));
    ASSERT_EQ(read.ranges.size(), 4U);
    EXPECT_EQ(text_of(read.ranges[0]), "ef");
    EXPECT_EQ(text_of(read.ranges[1]), "2345");
    EXPECT_EQ(text_of(own), "789");
    EXPECT_TRUE(read.ranges[3].empty());
  }
  EXPECT_TRUE(must(read_ranges({})).ranges.empty());
}

TEST(IoTest, a_range_past_the_end_and_a_missing_file_are_named) {
  const Folder folder;
  write_file(folder.file("a"), "0123456789");
  const std::array<FileRange, 1> past = {
      FileRange{.path = folder.file("a"), .offset_bytes = 8, .size_bytes = 3}};
  const Status status = read_ranges(past).status();
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find(folder.file("a")), std::string_view::npos);
  const std::array<FileRange, 1> missing = {FileRange{.path = folder.file("none")}};
  EXPECT_EQ(read_ranges(missing).status().code(), Code::not_found);
}

TEST(IoTest, a_durable_write_replaces_or_refuses) {
  const Folder folder;
  const std::string path = folder.file("state");
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  EXPECT_TRUE(write_durable(path, bytes("one")).ok());
  EXPECT_TRUE(write_durable(path, bytes("two")).ok());
  EXPECT_EQ(write_durable(path, bytes("three"), IfExists::fail).code(), Code::already_exists);
  const std::array<FileRange, 1> all = {FileRange{.path = path}};
  EXPECT_EQ(text_of(must(read_ranges(all)).ranges[0]), "two");
  EXPECT_EQ(write_durable(folder.file("no/state"), bytes("x")).code(), Code::not_found);
}

TEST(IoTest, the_page_cache_is_measured) {
  const Folder folder;
  write_file(folder.file("a"), std::string(100'000, 'x'));
  const Residency found = must(residency(folder.file("a")));
  EXPECT_EQ(found.size_bytes, 100'000U);
  EXPECT_EQ(found.resident_bytes, 100'000U);
  EXPECT_TRUE(evict(folder.file("a")).ok());
  EXPECT_EQ(must(residency(folder.file("a"), 50'000, 10'000)).size_bytes, 10'000U);
  EXPECT_EQ(residency(folder.path()).status().code(), Code::invalid_argument);
}

TEST(IoTest, names_are_parsed) {
  EXPECT_EQ(must(parse_engine_kind("uring")), EngineKind::uring);
  EXPECT_EQ(engine_kind_name(EngineKind::automatic), "auto");
  EXPECT_EQ(must(parse_cache_policy("drop_behind")), CachePolicy::drop_behind);
  EXPECT_EQ(parse_cache_policy("none").status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
