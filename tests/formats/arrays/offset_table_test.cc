#include "formats/arrays/offset_table.h"

#include <gtest/gtest.h>

#include <cstring>

#include "conformance/shard_format_support.h"

namespace stoker {
namespace {

using testing::FoundRecord;
using testing::RecordList;

std::vector<std::byte> table_of(const std::vector<std::uint32_t>& numbers) {
  std::vector<std::byte> bytes(4 * numbers.size());
  std::memcpy(bytes.data(), numbers.data(), bytes.size());
  return bytes;
}

Status read_table(const std::vector<std::byte>& bytes, const OffsetTable::Options& options,
                  RecordList& found) {
  STOKER_ASSIGN(OffsetTable table, OffsetTable::make(options));
  while (!table.finished()) {
    const ByteRange want = table.wants();
    EXPECT_LE(want.end_bytes(), options.size_bytes);
    STOKER_ASSIGN([[maybe_unused]] const std::size_t used,
                  table.feed(std::span(bytes).subspan(want.offset_bytes, want.size_bytes), found));
  }
  return {};
}

TEST(OffsetTableTest, gives_each_record_its_range) {
  RecordList found;
  ASSERT_TRUE(read_table(table_of({3, 20, 25, 25, 60}), {.size_bytes = 60}, found).ok());
  const std::vector<FoundRecord> expected = {{{20, 5}, ""}, {{25, 0}, ""}, {{25, 35}, ""}};
  EXPECT_EQ(found.records, expected);
}

struct HostileTable {
  const char* reason;
  std::vector<std::uint32_t> numbers;
  std::uint64_t size_bytes;
  std::uint64_t gap_bytes_max;
  const char* message;
};

TEST(OffsetTableTest, hostile_tables_are_corrupt_each_with_its_own_message) {
  const HostileTable cases[] = {
      {"no table fits", {0}, 4, 0, "byte 0: 4 bytes are too few for an offset table"},
      {"more records than bytes",
       {0xFFFFFFFF},
       100,
       0,
       "byte 0: a table for 4294967295 records takes 17179869188 bytes, the file has 100"},
      {"one record too many",
       {2, 0},
       15,
       0,
       "byte 0: a table for 2 records takes 16 bytes, the file has 15"},
      {"inside the table",
       {1, 11, 20},
       20,
       0,
       "byte 4: record 0 at 11 overlaps the table, which ends at 12"},
      {"a gap",
       {1, 13, 20},
       20,
       0,
       "byte 4: record 0 at 13 is more than 0 bytes behind the table, which ends at 12"},
      {"going back",
       {2, 16, 30, 29},
       40,
       0,
       "byte 12: record 1 ends at 29, before its start at 30"},
      {"beyond the file",
       {1, 12, 41},
       40,
       0,
       "byte 8: offset 41 of record 1 is beyond the end of the file, 40"},
      {"negative",
       {1, 12, 0xFFFFFFFF},
       40,
       0,
       "byte 8: offset 4294967295 of record 1 is beyond the end of the file, 40"},
      {"a gap too large",
       {1, 30, 40},
       40,
       17,
       "byte 4: record 0 at 30 is more than 17 bytes behind the table, which ends at 12"},
  };
  for (const HostileTable& hostile : cases) {
    std::vector<std::byte> bytes = table_of(hostile.numbers);
    bytes.resize(hostile.size_bytes);
    RecordList found;
    const Status status = read_table(
        bytes, {.size_bytes = hostile.size_bytes, .gap_bytes_max = hostile.gap_bytes_max}, found);
    EXPECT_EQ(status.code(), Code::corrupt) << hostile.reason;
    EXPECT_EQ(status.message(), hostile.message) << hostile.reason;
  }
}

TEST(OffsetTableTest, a_large_table_is_wanted_in_pieces) {
  constexpr std::uint32_t kCount = 600'000;
  std::vector<std::uint32_t> numbers = {kCount};
  numbers.resize(kCount + 2, 4 * (kCount + 2));
  const std::vector<std::byte> bytes = table_of(numbers);
  auto table = OffsetTable::make({.size_bytes = bytes.size()});
  RecordList found;
  int feeds = 0;
  for (; !table->finished(); ++feeds) {
    const ByteRange want = table->wants();
    ASSERT_LE(want.size_bytes, OffsetTable::kPieceBytes);
    ASSERT_TRUE(
        table->feed(std::span(bytes).subspan(want.offset_bytes, want.size_bytes), found).ok());
  }
  EXPECT_EQ(feeds, 4);
  EXPECT_EQ(found.records.size(), kCount);
}

TEST(OffsetTableTest, fewer_bytes_than_wanted_are_the_callers_mistake) {
  auto table = OffsetTable::make({.size_bytes = 100});
  RecordList found;
  EXPECT_EQ(table->feed(std::vector<std::byte>(3), found).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
