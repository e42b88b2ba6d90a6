// Writes that never end: the save fails by its deadline, the next ones succeed, nobody hangs.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save_support.h"
#include "checkpoint/staging/stuck_writes.h"
#include "io/files/forwarding_file_ops.h"
#include "support/stuck_engine.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::counted;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;

class StuckWriteTest : public ::testing::Test {
 protected:
  /// The first `stuck_count` engines belong to a device that does not answer.
  std::unique_ptr<CheckpointSaver> make(int stuck_count) {
    SaverOptions options = quiet_options(dir_.path());
    options.memory_bytes = std::uint64_t{128} << 10;  // one save's, and no more
    options.engine = [this, stuck_count, made = 0]() mutable -> Result<std::unique_ptr<Engine>> {
      if (made++ >= stuck_count) return make_sync_engine({.depth = 8});
      return std::unique_ptr<Engine>(std::make_unique<testing::StuckEngine>(device_));
    };
    Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(options));
    EXPECT_TRUE(saver.ok()) << saver.status().message();
    return *std::move(saver);
  }

  /// The error of a save that is stuck, and that the next call tells as well.
  Status save_stuck(CheckpointSaver& saver, std::uint64_t step) {
    SaveRequest request = request_of(step, tensors_);
    request.deadline = std::chrono::seconds(1);
    const Result<PendingSave> pending = saver.save(std::move(request));
    if (!pending.ok()) return pending.status();
    Status error = pending->wait();
    EXPECT_EQ(pending->outcome(), SaveOutcome::failed);
    EXPECT_FALSE(saver.wait().ok());
    return error;
  }

  const testing::TempDir dir_;
  const std::vector<OwnedTensor> tensors_ = {counted("w", 20'000, 1)};
  std::shared_ptr<testing::StuckDevice> device_ = std::make_shared<testing::StuckDevice>();
};

TEST_F(StuckWriteTest, a_write_that_never_ends_fails_its_save_and_is_named) {
  const std::unique_ptr<CheckpointSaver> saver = make(1);
  const Status error = save_stuck(*saver, 10);
  EXPECT_EQ(error.code(), Code::unavailable);
  EXPECT_NE(error.message().find("rank-00000.safetensors at 0"), std::string_view::npos)
      << error.message();
  // The disk is back for the next save, while the old write still hangs.
  const Result<PendingSave> next = saver->save(request_of(20, tensors_));
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next->wait().ok()) << next->wait().message();
  testing::expect_whole(dir_.file("step-000000000020"));
  device_->come_back();
  const Result<PendingSave> last = saver->save(request_of(30, tensors_));
  ASSERT_TRUE(last.ok());
  EXPECT_TRUE(last->wait().ok());
}

TEST_F(StuckWriteTest, the_end_of_a_checkpointer_does_not_wait_for_the_device) {
  {
    const std::unique_ptr<CheckpointSaver> saver = make(1);
    EXPECT_FALSE(save_stuck(*saver, 10).ok());
    EXPECT_TRUE(saver->close().ok());
  }
  {
    const std::unique_ptr<CheckpointSaver> saver = make(1);
    EXPECT_FALSE(save_stuck(*saver, 10).ok());
  }
}

TEST_F(StuckWriteTest, a_device_that_stays_away_ends_the_saving_until_it_is_back) {
  const std::unique_ptr<CheckpointSaver> saver = make(2);
  EXPECT_FALSE(save_stuck(*saver, 10).ok());
  EXPECT_FALSE(save_stuck(*saver, 20).ok());
  const Status refused = save_stuck(*saver, 30);
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_NE(refused.message().find("does not answer"), std::string_view::npos) << refused.message();
  device_->come_back();
  const Result<PendingSave> next = saver->save(request_of(40, tensors_));
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next->wait().ok()) << next->wait().message();
}

/// A part whose writes no engine knows: a bucket's.
class RemotePart final : public StagedPart {
 public:
  explicit RemotePart(const bool& is_over) : is_over_(is_over) {}

  std::string path_of(std::uint32_t) const override { return "remote"; }
  Status begin() override { return {}; }
  Status create(std::uint32_t) override { return {}; }
  Result<std::optional<FileInfo>> reuse(std::uint32_t, const ReuseSource&) override {
    return std::optional<FileInfo>();
  }
  Result<bool> submit(const StagedWrite&) override { return true; }
  Result<std::size_t> reap(std::span<Completion>, std::size_t, nanoseconds) override {
    return std::size_t{0};
  }
  std::size_t in_flight() const noexcept override { return count_; }
  void all_written() override {}
  Result<FileInfo> finish(std::uint32_t) override { return FileInfo(); }
  Status seal(std::uint32_t, const std::string&) override { return {}; }
  void abandon(Deadline) override { count_ = is_over_ ? 0 : 1; }

 private:
  const bool& is_over_;
  std::size_t count_ = 1;
};

TEST(StuckWritesTest, memory_is_lent_again_only_when_the_part_has_no_write_in_flight) {
  StagingMemory memory(std::nullopt);
  StuckWrites stuck(memory);
  bool is_over = false;
  constexpr std::size_t kBytes = std::size_t{8} << 20;
  Result<std::unique_ptr<Arena>> arena = memory.take(kBytes, Deadline::max());
  ASSERT_TRUE(arena.ok());
  const std::byte* const lent = (*arena)->bytes().data();
  auto write = std::make_unique<StuckWrite>();
  write->engine = *make_sync_engine({});
  write->arena = *std::move(arena);
  write->part = std::make_unique<RemotePart>(is_over);
  stuck.keep(std::move(write));
  const auto next = [&] { return (*memory.take(kBytes, Deadline::max()))->bytes().data(); };
  EXPECT_TRUE(stuck.check().ok());
  EXPECT_NE(next(), lent);
  is_over = true;
  EXPECT_TRUE(stuck.check().ok());
  EXPECT_EQ(next(), lent);
}

/// The first `stuck_count` syncs of files do not come back.
class HangingSyncs final : public ForwardingFileOps {
 public:
  HangingSyncs(std::shared_ptr<testing::StuckDevice> device, int stuck_count)
      : ForwardingFileOps(posix_file_ops()),
        device_(std::move(device)),
        stuck_count_(stuck_count) {}
  Status fdatasync(int fd) override {
    if (stuck_count_.fetch_sub(1) <= 0) return ForwardingFileOps::fdatasync(fd);
    const std::shared_ptr<testing::StuckDevice> device = device_;  // the test may end first
    device->await(kForever);
    return {};
  }

 private:
  std::shared_ptr<testing::StuckDevice> device_;
  std::atomic<int> stuck_count_;
};

TEST_F(StuckWriteTest, a_sync_that_never_ends_fails_its_save_and_no_other) {
  // Never freed: the thread of the stuck sync may outlive the test.
  static auto& ops = *new HangingSyncs(device_, 1);
  SaverOptions options = quiet_options(dir_.path());
  options.ops = &ops;
  const std::unique_ptr<CheckpointSaver> saver = testing::make_saver(std::move(options));
  const Status error = save_stuck(*saver, 10);
  EXPECT_EQ(error.os_error(), ETIMEDOUT) << error.message();
  EXPECT_NE(error.message().find("did not end before the deadline"), std::string_view::npos)
      << error.message();
  const Result<PendingSave> next = saver->save(request_of(20, tensors_));
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next->wait().ok()) << next->wait().message();
  EXPECT_FALSE(std::filesystem::exists(dir_.file("step-000000000010")));
  testing::expect_whole(dir_.file("step-000000000020"));
  device_->come_back();
  EXPECT_TRUE(saver->close().ok());
}

/// The sync of that number, of a file or a directory, does not come back.
class HangingOnce final : public ForwardingFileOps {
 public:
  HangingOnce(std::shared_ptr<testing::StuckDevice> device, int number)
      : ForwardingFileOps(posix_file_ops()), device_(std::move(device)), number_(number) {}

  Status fdatasync(int fd) override {
    STOKER_TRY(hang());
    return ForwardingFileOps::fdatasync(fd);
  }
  Status fsync_dir(const PathAt& path) override {
    STOKER_TRY(hang());
    return ForwardingFileOps::fsync_dir(path);
  }

 private:
  Status hang() {
    if (count_.fetch_add(1) != number_) return {};
    const std::shared_ptr<testing::StuckDevice> device = device_;  // the test may end first
    device->await(kForever);
    return Status::from_errno(EIO, "fsync", "");
  }

  std::shared_ptr<testing::StuckDevice> device_;
  const int number_;
  std::atomic<int> count_ = 0;
};

// The lock is taken on the caller's thread, by a few syncs.
TEST_F(StuckWriteTest, a_sync_that_never_ends_while_the_lock_is_taken_fails_that_save_alone) {
  // Never freed: the thread of the stuck sync may outlive the test.
  static auto& kept = *new std::vector<std::unique_ptr<HangingOnce>>();
  int hung_count = 0;
  for (bool is_of_lock = true; is_of_lock; ++hung_count) {
    const testing::TempDir dir;
    HangingOnce& ops = *kept.emplace_back(std::make_unique<HangingOnce>(device_, hung_count));
    SaverOptions options = quiet_options(dir.path());
    options.ops = &ops;
    const std::unique_ptr<CheckpointSaver> saver = testing::make_saver(std::move(options));
    SaveRequest request = request_of(10, tensors_);
    request.deadline = std::chrono::milliseconds(1);
    const Result<PendingSave> first = saver->save(std::move(request));
    is_of_lock = !first.ok() && first.status().os_error() == ETIMEDOUT;
    if (!is_of_lock) break;
    const Result<PendingSave> next = saver->save(request_of(20, tensors_));
    ASSERT_TRUE(next.ok()) << hung_count << " " << next.status().message();
    EXPECT_TRUE(next->wait().ok()) << hung_count << " " << next->wait().message();
    testing::expect_whole(dir.file("step-000000000020"));
    EXPECT_TRUE(saver->close().ok());
  }
  EXPECT_GE(hung_count, 2);
  device_->come_back();
}

/// The sync after a crash point of the commit, of a file or a directory, does not come back, once.
class HangingCommit final : public ForwardingFileOps {
 public:
  HangingCommit(std::shared_ptr<testing::StuckDevice> device, std::string point)
      : ForwardingFileOps(posix_file_ops()), device_(std::move(device)), point_(std::move(point)) {}

  void arm(bool is_armed) { is_armed_ = is_armed; }
  void reached(std::string_view crash_point) override {
    if (is_armed_ && crash_point == point_) is_next_ = true;
    ForwardingFileOps::reached(crash_point);
  }
  Status fsync(int fd) override {
    STOKER_TRY(hang());
    return ForwardingFileOps::fsync(fd);
  }
  Status fsync_dir(const PathAt& path) override {
    STOKER_TRY(hang());
    return ForwardingFileOps::fsync_dir(path);
  }

 private:
  Status hang() {
    if (!is_next_.exchange(false)) return {};
    is_armed_ = false;
    const std::shared_ptr<testing::StuckDevice> device = device_;  // the test may end first
    device->await(kForever);
    return Status::from_errno(EIO, "fsync", "");
  }

  std::shared_ptr<testing::StuckDevice> device_;
  const std::string point_;
  std::atomic<bool> is_armed_ = false;
  std::atomic<bool> is_next_ = false;
};

struct HangingStep {
  const char* name;
  const char* point;    ///< Before the sync that hangs.
  bool may_be_visible;  ///< Then the checkpoint has its name, and nobody knows for how long.
};

void PrintTo(const HangingStep& step, std::ostream* out) {
  *out << step.name;
}

class HangingCommitTest : public StuckWriteTest,
                          public ::testing::WithParamInterface<HangingStep> {};

TEST_P(HangingCommitTest, fails_its_save_by_the_deadline_and_no_other) {
  // Never freed: the thread of the stuck sync may outlive the test.
  static auto& kept = *new std::vector<std::unique_ptr<HangingCommit>>();
  HangingCommit& ops =
      *kept.emplace_back(std::make_unique<HangingCommit>(device_, GetParam().point));
  SaverOptions options = quiet_options(dir_.path());
  options.ops = &ops;
  const std::unique_ptr<CheckpointSaver> saver = testing::make_saver(std::move(options));
  const Result<PendingSave> first = saver->save(request_of(10, tensors_));
  ASSERT_TRUE(first.ok() && first->wait().ok());

  ops.arm(true);
  SaveRequest request = request_of(20, tensors_);
  request.deadline = std::chrono::seconds(1);
  const Result<PendingSave> stuck = saver->save(request);
  ASSERT_TRUE(stuck.ok()) << stuck.status().message();
  const Status error = stuck->wait();
  ops.arm(false);
  EXPECT_EQ(error.os_error(), ETIMEDOUT) << error.message();
  EXPECT_NE(error.message().find("did not end before the deadline"), std::string_view::npos)
      << error.message();
  EXPECT_FALSE(stuck->is_durable());
  EXPECT_EQ(std::filesystem::exists(dir_.file("step-000000000020")), GetParam().may_be_visible);
  EXPECT_FALSE(saver->wait().ok()) << "the next call tells it as well";

  const Result<PendingSave> next = saver->save(request_of(30, tensors_));
  ASSERT_TRUE(next.ok()) << next.status().message();
  EXPECT_TRUE(next->wait().ok()) << next->wait().message();
  testing::expect_whole(dir_.file("step-000000000030"));
  EXPECT_EQ(std::filesystem::read_symlink(dir_.file("latest")), "step-000000000030");
  device_->come_back();
  EXPECT_TRUE(saver->close().ok());
}

INSTANTIATE_TEST_SUITE_P(
    Syncs, HangingCommitTest,
    ::testing::Values(HangingStep{"of_the_staging_directory", "checkpoint.part_written", false},
                      HangingStep{"of_the_manifest", "checkpoint.staging_synced", false},
                      HangingStep{"of_the_sealed_directory", "checkpoint.manifest_written", false},
                      HangingStep{"of_the_parent", "checkpoint.renamed", true}),
    [](const auto& named) { return std::string(named.param.name); });

}  // namespace
}  // namespace stoker
