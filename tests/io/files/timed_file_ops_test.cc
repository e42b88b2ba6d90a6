#include "io/files/timed_file_ops.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <new>
#include <string>
#include <thread>

#include "io/files/forwarding_file_ops.h"
#include "support/stuck_engine.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using testing::StuckDevice;

/// fsync and fdatasync do not return before the device is back.
class HangingSyncs final : public ForwardingFileOps {
 public:
  explicit HangingSyncs(StuckDevice& device)
      : ForwardingFileOps(posix_file_ops()), device_(device) {}
  Status fsync(int fd) override {
    device_.await(kForever);
    return ForwardingFileOps::fsync(fd);
  }

 private:
  StuckDevice& device_;
};

TEST(TimedFileOpsTest, passes_calls_and_answers_on) {
  const testing::TempDir dir;
  TimedFileOps ops(posix_file_ops());
  for (const bool has_begun : {false, true}) {
    if (has_begun) {
      ASSERT_TRUE(ops.begin(Deadline::max()).ok());
    }
    const std::string path = dir.file(has_begun ? "b" : "a");
    Result<UniqueFd> fd = ops.open(path, O_RDWR | O_CREAT | O_EXCL);
    ASSERT_TRUE(fd.ok()) << fd.status().message();
    EXPECT_EQ(*ops.pwrite(fd->get(), std::as_bytes(std::span("text", 4)), 0), 4U);
    EXPECT_TRUE(ops.fsync(fd->get()).ok());
    EXPECT_TRUE(ops.close(*std::move(fd)).ok());
    EXPECT_EQ(testing::contents_of(path), "text");
    EXPECT_EQ(ops.open(dir.file("none"), O_RDONLY).status().code(), Code::not_found);
    EXPECT_TRUE(ops.rename(path, path + "2").ok());
    EXPECT_EQ(ops.info_of(path + "2")->size_bytes, 4U);
  }
}

/// There is no memory for the error of a sync.
class ThrowingSyncs final : public ForwardingFileOps {
 public:
  ThrowingSyncs() : ForwardingFileOps(posix_file_ops()) {}
  Status fsync(int /*fd*/) override { throw std::bad_alloc(); }
};

TEST(TimedFileOpsTest, what_a_call_throws_is_thrown_to_the_caller) {
  const testing::TempDir dir;
  ThrowingSyncs throwing;
  TimedFileOps ops(throwing);
  ASSERT_TRUE(ops.begin(Deadline::max()).ok());
  Result<UniqueFd> fd = ops.open(dir.file("a"), O_RDWR | O_CREAT);
  ASSERT_TRUE(fd.ok());
  EXPECT_THROW(static_cast<void>(ops.fsync(fd->get())), std::bad_alloc);
  EXPECT_TRUE(ops.close(*std::move(fd)).ok()) << "the next call is made";
}

TEST(TimedFileOpsTest, a_call_that_does_not_end_is_left_alone_at_the_deadline) {
  const testing::TempDir dir;
  // Never destroyed: the threads that hang may outlive the test.
  static StuckDevice& device = *new StuckDevice();
  static HangingSyncs& hanging = *new HangingSyncs(device);
  TimedFileOps ops(hanging);
  Result<UniqueFd> fd = posix_file_ops().open(dir.file("a"), O_RDWR | O_CREAT);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(ops.begin(deadline_after(milliseconds(20))).ok());
  const Status synced = ops.fsync(fd->get());
  EXPECT_EQ(synced.code(), Code::unavailable);
  EXPECT_EQ(synced.os_error(), ETIMEDOUT);
  // The thread is gone: nothing more is begun that could hang as well.
  EXPECT_EQ(ops.mkdir(dir.file("b")).os_error(), ETIMEDOUT);
  EXPECT_EQ(ops.close(*std::move(fd)).os_error(), ETIMEDOUT);
  // The next job has another thread.
  ASSERT_TRUE(ops.begin(Deadline::max()).ok());
  EXPECT_TRUE(ops.mkdir(dir.file("b")).ok());
  Result<UniqueFd> other = ops.open(dir.file("c"), O_RDWR | O_CREAT);
  ASSERT_TRUE(other.ok());
  ASSERT_TRUE(ops.begin(deadline_after(milliseconds(20))).ok());
  EXPECT_EQ(ops.fsync(other->get()).os_error(), ETIMEDOUT);
  // With two that hang a third job would only be lost as well.
  EXPECT_EQ(ops.begin(Deadline::max()).code(), Code::unavailable);
  // A call that is made nevertheless does not run without a deadline.
  EXPECT_EQ(ops.mkdir(dir.file("d")).os_error(), ETIMEDOUT);
  EXPECT_FALSE(std::filesystem::exists(dir.file("d")));
  device.come_back();
  while (!ops.begin(Deadline::max()).ok()) {
  }
  EXPECT_TRUE(ops.fsync(other->get()).ok());
}

TEST(TimedFileOpsTest, the_call_that_took_the_time_is_named) {
  const testing::TempDir dir;
  // Never destroyed: the threads that hang may outlive the test.
  static StuckDevice& device = *new StuckDevice();
  static HangingSyncs& hanging = *new HangingSyncs(device);
  const Result<UniqueFd> fd = posix_file_ops().open(dir.file("a"), O_RDWR | O_CREAT);
  ASSERT_TRUE(fd.ok());
  std::string message = "the deadline passed before fsync";  // as on a busy machine
  for (milliseconds time(20); message.starts_with("the deadline passed before"); time *= 2) {
    TimedFileOps ops(hanging);
    ASSERT_TRUE(ops.begin(deadline_after(time)).ok());
    message = ops.fsync(fd->get()).message();
  }
  EXPECT_NE(message.find("fsync: did not end before the deadline"), std::string::npos) << message;
  device.come_back();
}

TEST(TimedFileOpsTest, a_call_that_begins_after_the_deadline_is_not_what_took_the_time) {
  const testing::TempDir dir;
  // Never destroyed: the thread that hangs may outlive the test.
  static StuckDevice& device = *new StuckDevice();
  static HangingSyncs& hanging = *new HangingSyncs(device);
  TimedFileOps ops(hanging);
  Result<UniqueFd> fd = posix_file_ops().open(dir.file("a"), O_RDWR | O_CREAT);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(ops.begin(Clock::now()).ok());
  EXPECT_NE(ops.fsync(fd->get()).message().find("the deadline passed before fsync"),
            std::string::npos);
  device.come_back();
}

TEST(TimedFileOpsTest, only_the_thread_that_has_begun_has_a_deadline_and_only_until_its_end) {
  const testing::TempDir dir;
  // Never destroyed: the thread that hangs may outlive the test.
  static StuckDevice& device = *new StuckDevice();
  static HangingSyncs& hanging = *new HangingSyncs(device);
  TimedFileOps ops(hanging);
  const Result<UniqueFd> fd = posix_file_ops().open(dir.file("a"), O_RDWR | O_CREAT);
  ASSERT_TRUE(fd.ok());
  ASSERT_TRUE(ops.begin(Clock::now()).ok());
  EXPECT_EQ(ops.fsync(fd->get()).os_error(), ETIMEDOUT);
  EXPECT_EQ(ops.info_of(dir.file("a")).status().os_error(), ETIMEDOUT);
  {
    const std::jthread other([&] { EXPECT_TRUE(ops.info_of(dir.file("a")).ok()); });
  }
  ops.end();
  EXPECT_TRUE(ops.info_of(dir.file("a")).ok());
  device.come_back();
}

TEST(TimedFileOpsTest, its_end_does_not_wait_for_the_device) {
  const testing::TempDir dir;
  // Never destroyed: the thread that hangs outlives the test.
  static StuckDevice& device = *new StuckDevice();
  static HangingSyncs& hanging = *new HangingSyncs(device);
  TimedFileOps ops(hanging);
  ASSERT_TRUE(ops.begin(deadline_after(milliseconds(1))).ok());
  Result<UniqueFd> fd = posix_file_ops().open(dir.file("a"), O_RDWR | O_CREAT);
  ASSERT_TRUE(fd.ok());
  EXPECT_EQ(ops.fsync(fd->get()).os_error(), ETIMEDOUT);
}

}  // namespace
}  // namespace stoker
