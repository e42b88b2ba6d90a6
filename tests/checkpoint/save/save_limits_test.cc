// What a save is held to: the rate limit, its deadline, the room on the disk.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"
#include "support/stuck_engine.h"

namespace stoker {
namespace {

using testing::counted;
using testing::make_saver;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;

TEST(SaveLimitsTest, a_rate_that_cannot_be_kept_before_the_deadline_fails_the_save_by_then) {
  const testing::TempDir dir;
  SaverOptions options = quiet_options(dir.path());
  options.deadline = std::chrono::hours(1);
  options.rate_limit_bytes_per_s = 1'000;  // more than an hour for a chunk
  const auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 3'000'000, 1)};  // two chunks pass at once
  const Result<PendingSave> pending = saver->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  const Status error = pending->wait();
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_NE(error.message().find("rate limit of 1000 bytes/s"), std::string_view::npos)
      << error.message();
  EXPECT_EQ(error.message().find("did not end"), std::string_view::npos)
      << "the device is not to blame: " << error.message();
  EXPECT_EQ(error.message().find("rank 0"), std::string_view::npos)
      << "there is no other: " << error.message();
  EXPECT_FALSE(saver->wait().ok());
}

TEST(SaveLimitsTest, what_was_written_is_counted_while_the_rate_limit_is_waited_for) {
  const testing::TempDir dir;
  SaverOptions options = quiet_options(dir.path());
  options.rate_limit_bytes_per_s = 2 * kCheckpointChunkBytes;  // half a second for the third chunk
  std::unique_ptr<CheckpointSaver> saver;
  std::vector<std::uint64_t> written_bytes;  // when each chunk was about to be written
  options.engine = [&] {
    return make_sync_engine({.depth = 8, .tamper = [&](const Request&, std::int64_t raw) {
                               written_bytes.push_back(saver->progress().written_bytes);
                               return raw;
                             }});
  };
  saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 3'000'000, 1)};
  const Result<PendingSave> pending = saver->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  EXPECT_TRUE(pending->wait().ok()) << pending->wait().message();
  ASSERT_EQ(written_bytes.size(), 3U);
  EXPECT_GT(written_bytes[2], kCheckpointChunkBytes) << "both that were written";
}

/// Saves of 4 KiB and a little, of which the first does not begin before the device is back.
class RoomTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kFreeBytes = 6'000;  // for one of them

  SaverOptions options(LatePolicy late) {
    SaverOptions options = quiet_options(dir_.path());
    options.in_flight = 3;
    options.late = late;
    options.engine = [this] {
      device_.await(kForever);
      return make_sync_engine({.depth = 8});
    };
    options.free_bytes = [this](const std::string&) -> Result<std::uint64_t> {
      if (++asked_ == back_when_asked_) device_.come_back();
      return kFreeBytes;
    };
    return options;
  }

  const testing::TempDir dir_;
  const std::vector<OwnedTensor> tensors_{counted("w", 9, 1)};
  testing::StuckDevice device_;
  int asked_ = 0;
  int back_when_asked_ = 0;
};

TEST_F(RoomTest, saves_that_have_not_reserved_theirs_are_counted) {
  const auto saver = make_saver(options(LatePolicy::skip));
  const Result<PendingSave> first = saver->save(request_of(1, tensors_));
  ASSERT_TRUE(first.ok());
  const Status refused = saver->save(request_of(2, tensors_)).status();
  EXPECT_EQ(refused.code(), Code::no_space);
  EXPECT_NE(refused.message().find("earlier saves will take 4132"), std::string_view::npos)
      << refused.message();
  device_.come_back();
  EXPECT_TRUE(first->wait().ok()) << first->wait().message();
  EXPECT_TRUE(saver->save(request_of(2, tensors_)).ok()) << "the first has its blocks now";
}

TEST_F(RoomTest, a_save_that_may_block_waits_for_those_before_it_to_make_some) {
  back_when_asked_ = 2;
  const auto saver = make_saver(options(LatePolicy::block));
  ASSERT_TRUE(saver->save(request_of(1, tensors_)).ok());
  const Result<PendingSave> second = saver->save(request_of(2, tensors_));
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(asked_, 3) << "once more when the first was committed";
  EXPECT_TRUE(second->wait().ok()) << second->wait().message();
}

/// The first file gets its blocks at once, but the call does not return before `may_end`.
class SlowAllocation final : public ForwardingFileOps {
 public:
  explicit SlowAllocation(Status result)
      : ForwardingFileOps(posix_file_ops()), result_(std::move(result)) {}
  Status fallocate(int fd, std::uint64_t size_bytes) override {
    if (has_begun.await(nanoseconds(0))) return ForwardingFileOps::fallocate(fd, size_bytes);
    has_begun.come_back();
    may_end.await(kForever);
    return result_.ok() ? ForwardingFileOps::fallocate(fd, size_bytes) : result_;
  }

  testing::StuckDevice has_begun;
  testing::StuckDevice may_end;

 private:
  const Status result_;
};

/// A second save while the first, which ends with `result`, has its blocks and does not know it.
Status save_while_reserving(const Status& result, std::uint64_t then_free_bytes) {
  const testing::TempDir dir;
  SlowAllocation ops(result);
  int asked = 0;
  SaverOptions options = quiet_options(dir.path());
  options.ops = &ops;
  options.in_flight = 3;
  options.late = LatePolicy::skip;
  options.free_bytes = [&](const std::string&) -> Result<std::uint64_t> {
    if (++asked == 1) return std::uint64_t{9'000};
    if (asked > 2) return then_free_bytes;
    ops.may_end.come_back();
    return std::uint64_t{9'000 - 4'132};
  };
  const auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 9, 1)};
  const Result<PendingSave> first = saver->save(request_of(1, tensors));
  EXPECT_TRUE(first.ok());
  ops.has_begun.await(kForever);
  const Result<PendingSave> second = saver->save(request_of(2, tensors));
  ops.may_end.come_back();
  EXPECT_EQ(first->wait().code(), result.code()) << first->wait().message();
  return second.ok() ? second->wait() : second.status();
}

TEST(ReservationTest, blocks_that_the_save_before_is_reserving_are_not_counted_twice) {
  const Status saved = save_while_reserving(Status(), 9'000 - 4'132);
  EXPECT_TRUE(saved.ok()) << saved.message();
}

TEST(ReservationTest, a_save_that_fails_to_reserve_its_blocks_leaves_them_to_the_next) {
  const Status failure(Code::io_error, "fallocate");
  const Status saved = save_while_reserving(failure, 9'000);
  EXPECT_TRUE(saved.ok()) << saved.message();
}

TEST(ReservationTest, what_does_not_fit_beside_the_blocks_of_the_save_before_is_refused) {
  EXPECT_EQ(save_while_reserving(Status(), 4'000).code(), Code::no_space);
}

}  // namespace
}  // namespace stoker
