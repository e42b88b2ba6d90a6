#include "dataset/shard_cache/order_file.h"

#include "dataset/order/order.h"
#include "dataset/shard_cache/cache_support.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

OrderPlace some_place() {
  OrderPlace place;
  place.cursor.order =
      *resolve_order({.shuffle = Shuffle::global, .seed = 7, .sample_count = 1000});
  place.cursor.fingerprint = {.low = 1, .high = 2};
  place.cursor.global_batch_size = 8;
  place.cursor.epoch = 3;
  place.cursor.position = 400;
  place.rank = 1;
  place.world_size = 4;
  place.positions_per_second = 1234.5;
  return place;
}

TEST(OrderFileTest, a_place_is_read_as_it_was_written_and_its_line_has_no_position) {
  const OrderPlace place = some_place();
  const auto read = parse_order_place(format_order_place(place));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->cursor, place.cursor);
  EXPECT_EQ(read->rank, 1U);
  EXPECT_EQ(read->world_size, 4U);
  EXPECT_EQ(read->positions_per_second, 1234.5);
  OrderPlace later = place;
  later.cursor.position = 800;
  EXPECT_EQ(later.line(), place.line());
  later.cursor.order.seed = 8;
  EXPECT_NE(later.line(), place.line());
}

TEST(OrderFileTest, no_damaged_place_is_accepted) {
  const std::vector<std::byte> good = format_order_place(some_place());
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::vector<std::byte> bad = good;
    bad[i] ^= std::byte{1};
    EXPECT_EQ(parse_order_place(bad).status().code(), Code::corrupt) << i;
  }
  for (std::size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(parse_order_place(std::span(good).first(size)).ok());
  OrderPlace place = some_place();
  place.rank = 4;
  EXPECT_FALSE(parse_order_place(format_order_place(place)).ok());
  place = some_place();
  place.world_size = 0;
  EXPECT_FALSE(parse_order_place(format_order_place(place)).ok());
  place = some_place();
  place.world_size = 3;
  EXPECT_FALSE(parse_order_place(format_order_place(place)).ok()) << "8 is no multiple of it";
}

TEST(OrderFileTest, the_orders_of_live_processes_are_read_and_those_of_dead_ones_removed) {
  const TempDir dir;
  const auto mine = OrderFile::create(posix_file_ops(), dir.path());
  ASSERT_TRUE(mine.ok()) << mine.status().message();
  EXPECT_TRUE(read_order_files(posix_file_ops(), dir.path()).empty()) << "nothing written yet";
  ASSERT_TRUE((*mine)->write(some_place()).ok());
  // A child that dies leaves its file and no lock.
  in_child([&] {
    auto its = OrderFile::create(posix_file_ops(), dir.path());
    if (!its.ok() || !(*its)->write(some_place()).ok()) return 1;
    static_cast<void>((*its).release());  // nobody removes it
    return 0;
  });
  EXPECT_EQ(files_below(dir.path()).size(), 2U);
  EXPECT_EQ(read_order_files(posix_file_ops(), dir.path()).size(), 1U);
  EXPECT_EQ(files_below(dir.path()).size(), 1U);
}

}  // namespace
}  // namespace stoker::testing
