// Options of a loader that change how it reads, or the order.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "api/shards.h"
#include "stoker/io.h"
#include "stoker/probe.h"

namespace stoker {
namespace {

using testing::labels_of;
using testing::must;

class LoaderOptionsTest : public ::testing::Test {
 protected:
  LoaderOptionsTest() { testing::write_tars(folder_, 100); }

  LoaderOptions options() const {
    return {
        .data = {folder_.path()}, .batch_size = 10, .seed = 7, .fields = testing::image_fields()};
  }
  LoaderOptions with_lanes(std::uint64_t lanes) const {
    LoaderOptions wanted = options();
    wanted.shuffle = Shuffle::block;
    wanted.block_samples = 4;
    wanted.window_blocks = 2;
    wanted.lanes = lanes;
    return wanted;
  }

  const testing::Folder folder_;
};

TEST_F(LoaderOptionsTest, lanes_are_a_part_of_the_order) {
  Loader one = must(Loader::open(with_lanes(1)));
  Loader two = must(Loader::open(with_lanes(2)));
  Loader chosen = must(Loader::open(with_lanes(0)));
  EXPECT_EQ(one.cursor().order.lanes, 1U);
  EXPECT_EQ(two.cursor().order.lanes, 2U);
  EXPECT_GE(chosen.cursor().order.lanes, 1U);
  EXPECT_NE(labels_of(one), labels_of(two));
  const Status refused = two.resume(must(one.state()));
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("lanes"), std::string_view::npos) << refused.message();
}

TEST_F(LoaderOptionsTest, the_policy_of_paths_decides_how_they_are_read) {
  const auto counters = [&](CachePolicy policy) {
    // Of what no cache has, if this filesystem can drop it.
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
      if (entry.is_regular_file()) static_cast<void>(evict(entry.path().string()));
    LoaderOptions wanted = options();
    wanted.policy = policy;
    Loader loader = must(Loader::open(wanted));
    EXPECT_EQ(labels_of(loader).size(), 10U);
    return loader.stats().fetch;
  };
  const FetchCounters buffered = counters(CachePolicy::buffered);
  EXPECT_EQ(buffered.direct_reads + buffered.drop_behind_reads, 0U);
  EXPECT_GT(buffered.page_cache_reads + buffered.buffered_reads, 0U);
  const FetchCounters dropped = counters(CachePolicy::drop_behind);
  EXPECT_EQ(dropped.direct_reads + dropped.buffered_reads, 0U);
  EXPECT_GT(dropped.page_cache_reads + dropped.drop_behind_reads, 0U);
  if (!must(probe(folder_.path())).direct_io) GTEST_SKIP() << "no O_DIRECT here";
  const FetchCounters direct = counters(CachePolicy::direct);
  EXPECT_GT(direct.direct_reads, 0U);
  EXPECT_EQ(direct.buffered_reads + direct.page_cache_reads, 0U);
}

}  // namespace
}  // namespace stoker
