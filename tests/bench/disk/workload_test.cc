#include "bench/disk/workload.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "bench/scratch.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::stoker::testing::TempDir;

constexpr std::uint32_t kBlock = 64 << 10;
constexpr std::uint64_t kFileBytes = 64 * kBlock;

/// Each test runs on every engine that this machine allows.
class WorkloadTest : public ::testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override {
    if (!make({})) GTEST_SKIP() << "the engine does not work here";
    Result<ScratchFile> scratch =
        ScratchFile::create(posix_file_ops(), dir_.path(), {.policy = CachePolicy::buffered});
    ASSERT_TRUE(scratch.ok()) << scratch.status().message();
    scratch_.emplace(*std::move(scratch));
  }

  bool make(EngineOptions options) {
    options.depth = 16;
    Result<std::unique_ptr<Engine>> engine = make_engine(GetParam(), options);
    if (engine.ok()) engine_ = *std::move(engine);
    return engine.ok();
  }

  Result<Measurement> run(Workload workload, const std::stop_token& stop = {}) {
    workload.block_bytes = kBlock;
    return run_workload(*engine_, scratch_->file(), pool_, workload, stop);
  }
  void fill() {
    const auto written = run({.op = Op::write, .range_bytes = kFileBytes, .depth = 8});
    ASSERT_TRUE(written.ok()) << written.status().message();
  }

  const TempDir dir_;
  BufferPool pool_ = *BufferPool::make({.budget_bytes = 16 * kBlock});
  std::unique_ptr<Engine> engine_;  // after the pool
  std::optional<ScratchFile> scratch_;
};

TEST_P(WorkloadTest, write_covers_the_range_with_pages_that_all_differ) {
  const auto found =
      run({.op = Op::write, .range_bytes = kFileBytes + 5000, .depth = 8, .preallocate = true});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->bytes, kFileBytes) << "a block cut short is left out";
  EXPECT_EQ(found->count, 64u);
  EXPECT_EQ(found->latency.count(), 64u);
  EXPECT_EQ(scratch_->file().size_bytes(), kFileBytes);
  const std::string data = testing::contents_of(scratch_->reopen_path());
  std::set<std::string_view> pages;
  for (std::size_t at = 0; at < data.size(); at += 4096)
    pages.insert(std::string_view(data).substr(at, 4096));
  EXPECT_EQ(pages.size(), kFileBytes / 4096);
}

TEST_P(WorkloadTest, write_goes_on_from_an_offset) {
  fill();
  const auto found = run({.op = Op::write, .offset_bytes = kFileBytes, .range_bytes = 4 * kBlock});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->count, 4u);
  EXPECT_EQ(scratch_->file().size_bytes(), kFileBytes + 4 * kBlock);
}

TEST_P(WorkloadTest, read_of_one_pass_reads_each_block_once) {
  fill();
  for (const Pattern pattern : {Pattern::sequential, Pattern::random}) {
    for (const std::uint32_t depth : {1U, 7U, 16U, 1000U}) {
      SCOPED_TRACE(depth);
      const auto found = run({.pattern = pattern, .range_bytes = kFileBytes, .depth = depth});
      ASSERT_TRUE(found.ok()) << found.status().message();
      EXPECT_EQ(found->bytes, kFileBytes);
      EXPECT_EQ(found->count, 64u);
      EXPECT_GT(found->bytes_per_s(), 0);
      EXPECT_LE(found->latency.quantile(0.5), found->latency.quantile(0.99));
    }
  }
}

TEST_P(WorkloadTest, repeated_read_ends_with_its_time) {
  fill();
  const auto found = run({.pattern = Pattern::random,
                          .range_bytes = 2 * kBlock,
                          .depth = 4,
                          .time_max = std::chrono::milliseconds(20),
                          .repeat = true});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_GT(found->count, 2u);
  EXPECT_GE(found->elapsed, std::chrono::milliseconds(20));
  EXPECT_EQ(found->count, found->latency.count());
}

TEST_P(WorkloadTest, stop_request_ends_an_endless_run_with_nothing_in_flight) {
  fill();
  std::stop_source stop;
  const std::jthread later([&] { stop.request_stop(); });
  const auto found = run({.range_bytes = kFileBytes, .depth = 8, .repeat = true}, stop.get_token());
  EXPECT_EQ(found.status().code(), Code::cancelled);
  EXPECT_EQ(engine_->in_flight(), 0u);
  EXPECT_EQ(pool_.leased_bytes(), 0u);
}

TEST_P(WorkloadTest, device_error_is_reported_with_nothing_in_flight) {
  fill();
  for (const int error : {EIO, ENOSPC, EINTR}) {
    bool fired = true;
    for (int fail_at = 0; fired; ++fail_at) {
      SCOPED_TRACE(std::to_string(error) + " at " + std::to_string(fail_at));
      std::atomic<int> countdown = fail_at;
      ASSERT_TRUE(make({.tamper = [&](const Request&, std::int64_t raw) -> std::int64_t {
        return countdown-- == 0 ? -error : raw;
      }}));
      const auto found = run({.range_bytes = 16 * kBlock, .depth = 8});
      fired = countdown < 0;
      const bool is_error = fired && error != EINTR;  // which the engine repeats
      EXPECT_EQ(found.status().os_error(), is_error ? error : 0) << found.status().message();
      EXPECT_EQ(engine_->in_flight(), 0u);
      EXPECT_EQ(pool_.leased_bytes(), 0u);
      ASSERT_LT(fail_at, 100);
    }
  }
}

TEST_P(WorkloadTest, full_disk_is_reported_as_such) {
  ASSERT_TRUE(make({.tamper = [](const Request& request, std::int64_t raw) -> std::int64_t {
    return request.offset_bytes >= kFileBytes / 2 ? -ENOSPC : raw;
  }}));
  const auto found = run({.op = Op::write, .range_bytes = kFileBytes, .depth = 8});
  EXPECT_EQ(found.status().code(), Code::no_space) << found.status().message();
  EXPECT_EQ(engine_->in_flight(), 0u);
}

TEST_P(WorkloadTest, registered_buffers_change_nothing_but_the_speed) {
  if (!engine_->register_buffers(pool_.memory()).ok())
    GTEST_SKIP() << "this engine or its memory limit has no registered buffers";
  fill();
  const auto found = run({.pattern = Pattern::random, .range_bytes = kFileBytes, .depth = 8});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->bytes, kFileBytes);
}

TEST_P(WorkloadTest, nonsense_is_refused) {
  EXPECT_EQ(run({.range_bytes = kBlock - 1}).status().code(), Code::invalid_argument);
  EXPECT_EQ(run({.op = Op::write, .range_bytes = kBlock, .repeat = true}).status().code(),
            Code::invalid_argument);
  EXPECT_EQ(run({.range_bytes = kBlock, .depth = 0}).status().code(), Code::invalid_argument);
}

TEST_P(WorkloadTest, pool_that_is_too_small_is_refused) {
  BufferPool small = *BufferPool::make({.budget_bytes = 1});
  const auto found =
      run_workload(*engine_, scratch_->file(), small,
                   {.range_bytes = kFileBytes, .block_bytes = 1 << 20, .depth = 16}, {});
  EXPECT_EQ(found.status().code(), Code::invalid_argument);
}

INSTANTIATE_TEST_SUITE_P(Engines, WorkloadTest,
                         ::testing::Values(EngineKind::uring, EngineKind::threads,
                                           EngineKind::sync),
                         [](const auto& param) {
                           return std::string(engine_kind_name(param.param));
                         });

TEST(MappedWorkloadTest, copies_each_block_once_and_checks_its_range) {
  const TempDir dir;
  Result<ScratchFile> scratch =
      ScratchFile::create(posix_file_ops(), dir.path(), {.policy = CachePolicy::buffered});
  ASSERT_TRUE(scratch.ok());
  const std::string data(kFileBytes, 'x');
  ASSERT_EQ(::pwrite(scratch->file().buffered_fd(), data.data(), data.size(), 0), std::ssize(data));
  const Result<MappedFile> file = MappedFile::open(scratch->reopen_path());
  ASSERT_TRUE(file.ok()) << file.status().message();
  BufferPool pool = *BufferPool::make(BufferPool::Options{});

  const Workload work{.pattern = Pattern::random, .range_bytes = kFileBytes, .block_bytes = kBlock};
  const auto found = run_mapped_workload(*file, pool, work, {});
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ(found->count, 64u);
  EXPECT_EQ(found->bytes, kFileBytes);

  Workload outside = work;
  outside.offset_bytes = kBlock;
  EXPECT_EQ(run_mapped_workload(*file, pool, outside, {}).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
