#include "bench/disk/small_files.h"

#include <gtest/gtest.h>

#include "bench/disk/sync_latency.h"
#include "bench/scratch.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::stoker::testing::TempDir;

class SmallFilesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Result<std::unique_ptr<Engine>> engine = make_sync_engine({.depth = 1});
    ASSERT_TRUE(engine.ok());
    engine_ = *std::move(engine);
  }

  const TempDir dir_;
  std::unique_ptr<Engine> engine_;
  BufferPool pool_ = *BufferPool::make(BufferPool::Options{});
  FileOps& ops_ = posix_file_ops();
};

TEST_F(SmallFilesTest, created_files_have_their_size_and_are_read_back) {
  const SmallFilesWorkload work{.file_bytes = 5000, .count_max = 20};
  const auto created = create_small_files(ops_, *engine_, pool_, dir_.path(), work, {});
  ASSERT_TRUE(created.ok()) << created.status().message();
  EXPECT_EQ(created->count, 20u);
  EXPECT_EQ(created->latency.count(), 20u);
  EXPECT_EQ(dir_.entry_count(), 20);
  EXPECT_EQ(std::filesystem::file_size(dir_.file("19")), 5000u);

  ASSERT_TRUE(make_small_files_cold(ops_, dir_.path(), 20, {}).ok());
  const auto warm = make_small_files_warm(ops_, pool_, dir_.path(), 20, {});
  ASSERT_TRUE(warm.ok()) << warm.status().message();
  EXPECT_EQ(warm->state, CacheState::warm) << warm->note;
  const auto read = read_small_files(ops_, *engine_, pool_, dir_.path(), 20, work, {});
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->bytes, 20u * 5000);
  EXPECT_GT(read->count_per_s(), 0);
}

TEST_F(SmallFilesTest, stop_request_ends_it) {
  std::stop_source stop;
  stop.request_stop();
  const auto created = create_small_files(ops_, *engine_, pool_, dir_.path(), {}, stop.get_token());
  EXPECT_EQ(created.status().code(), Code::cancelled);
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(SmallFilesTest, time_bound_ends_it) {
  const auto created = create_small_files(ops_, *engine_, pool_, dir_.path(),
                                          {.time_max = std::chrono::milliseconds(1)}, {});
  ASSERT_TRUE(created.ok());
  EXPECT_GT(created->count, 0u);
  EXPECT_LT(created->count, 20'000u);
}

TEST_F(SmallFilesTest, sync_latency_counts_one_sync_per_block) {
  for (const Op op : {Op::fsync, Op::fdatasync}) {
    Result<ScratchFile> file =
        ScratchFile::create(ops_, dir_.path(), {.policy = CachePolicy::buffered});
    ASSERT_TRUE(file.ok());
    const auto found =
        run_sync_latency(*engine_, file->file(), pool_,
                         {.op = op, .block_bytes = 4096, .bytes_max = 10 * 4096 + 1}, {});
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(found->count, 10u);
    EXPECT_EQ(found->latency.count(), 10u);
    EXPECT_EQ(found->bytes, 10u * 4096);
    EXPECT_GE(found->elapsed, found->latency.max());
  }
}

TEST_F(SmallFilesTest, sync_latency_refuses_what_is_no_sync) {
  Result<ScratchFile> file = ScratchFile::create(ops_, dir_.path(), {});
  ASSERT_TRUE(file.ok());
  const auto found =
      run_sync_latency(*engine_, file->file(), pool_, {.op = Op::read, .bytes_max = 1 << 20}, {});
  EXPECT_EQ(found.status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
