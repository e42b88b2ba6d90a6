// What a save is held to: the rate limit, its deadline, the room on the disk.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/checkpointer.h"
#include "checkpoint/save_support.h"
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
  CheckpointerOptions options = quiet_options(dir.path());
  options.deadline = std::chrono::hours(1);
  options.rate_limit_bytes_per_s = 1'000;  // more than an hour for a chunk
  const auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 3'000'000, 1)};  // two chunks pass at once
  const Result<Pending> pending = saver->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  const Status error = pending->wait();
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_NE(error.message().find("rate limit of 1000 bytes/s"), std::string_view::npos)
      << error.message();
  EXPECT_EQ(error.message().find("did not end"), std::string_view::npos)
      << "the device is not to blame: " << error.message();
  EXPECT_FALSE(saver->wait().ok());
}

TEST(SaveLimitsTest, what_was_written_is_counted_while_the_rate_limit_is_waited_for) {
  const testing::TempDir dir;
  CheckpointerOptions options = quiet_options(dir.path());
  options.rate_limit_bytes_per_s = 2 * kCheckpointChunkBytes;  // half a second for the third chunk
  std::unique_ptr<Checkpointer> saver;
  std::vector<std::uint64_t> written_bytes;  // when each chunk was about to be written
  options.engine = [&] {
    return make_sync_engine({.depth = 8, .tamper = [&](const Request&, std::int64_t raw) {
                               written_bytes.push_back(saver->progress().written_bytes);
                               return raw;
                             }});
  };
  saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 3'000'000, 1)};
  const Result<Pending> pending = saver->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  EXPECT_TRUE(pending->wait().ok()) << pending->wait().message();
  ASSERT_EQ(written_bytes.size(), 3U);
  EXPECT_GT(written_bytes[2], kCheckpointChunkBytes) << "both that were written";
}

/// Saves of 4 KiB and a little, of which the first does not begin before the device is back.
class RoomTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kFreeBytes = 6'000;  // for one of them

  CheckpointerOptions options(LatePolicy late) {
    CheckpointerOptions options = quiet_options(dir_.path());
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
  const Result<Pending> first = saver->save(request_of(1, tensors_));
  ASSERT_TRUE(first.ok());
  const Status refused = saver->save(request_of(2, tensors_)).status();
  EXPECT_EQ(refused.code(), Code::no_space);
  EXPECT_NE(refused.message().find("saves before it will take 4132"), std::string_view::npos)
      << refused.message();
  device_.come_back();
  EXPECT_TRUE(first->wait().ok()) << first->wait().message();
  EXPECT_TRUE(saver->save(request_of(2, tensors_)).ok()) << "the first has its blocks now";
}

TEST_F(RoomTest, a_save_that_may_block_waits_for_those_before_it_to_make_some) {
  back_when_asked_ = 2;
  const auto saver = make_saver(options(LatePolicy::block));
  ASSERT_TRUE(saver->save(request_of(1, tensors_)).ok());
  const Result<Pending> second = saver->save(request_of(2, tensors_));
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ(asked_, 3) << "once more when the first was committed";
  EXPECT_TRUE(second->wait().ok()) << second->wait().message();
}

}  // namespace
}  // namespace stoker
