#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/gated_saves.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"

namespace stoker {
namespace {

using testing::counted;
using testing::exists;
using testing::Gate;
using testing::GatedFileOps;
using testing::make_saver;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;
using testing::save_through;

/// Its saves fail while `is_broken`.
std::unique_ptr<CheckpointSaver> make_breakable(const testing::TempDir& dir,
                                                const std::atomic<bool>& is_broken) {
  SaverOptions options = quiet_options(dir.path());
  options.engine = [&is_broken]() -> Result<std::unique_ptr<Engine>> {
    if (is_broken) return Status(Code::no_space, "no engine today");
    return make_engine(EngineKind::sync, {});
  };
  return make_saver(std::move(options));
}

TEST(CheckpointerErrorsTest, an_error_is_told_once_by_the_next_call_and_always_by_its_own_pending) {
  const testing::TempDir dir;
  std::atomic<bool> is_broken{true};
  const auto saver = make_breakable(dir, is_broken);
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  const Result<PendingSave> failing = saver->save(request_of(1, tensors));
  ASSERT_TRUE(failing.ok());
  EXPECT_EQ(failing->wait().code(), Code::no_space);
  EXPECT_EQ(failing->outcome(), SaveOutcome::failed);
  is_broken = false;
  EXPECT_EQ(saver->save(request_of(2, tensors)).status().code(), Code::no_space);
  EXPECT_TRUE(save_through(*saver, request_of(2, tensors)).ok());
  EXPECT_TRUE(saver->wait().ok());
  EXPECT_EQ(failing->wait().code(), Code::no_space);
  EXPECT_TRUE(saver->close().ok());
  EXPECT_EQ(saver->save(request_of(3, tensors)).status().code(), Code::invalid_argument);
}

TEST(CheckpointerErrorsTest, an_error_that_the_caller_has_is_not_told_again) {
  const testing::TempDir dir;
  std::atomic<bool> is_broken{true};
  const auto saver = make_breakable(dir, is_broken);
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  const auto fail = [&](std::uint64_t step) {
    const Result<PendingSave> failing = saver->save(request_of(step, tensors));
    EXPECT_TRUE(failing.ok());
    EXPECT_EQ(failing->wait().code(), Code::no_space);
    failing->set_reported();
  };
  fail(1);
  fail(2);
  const Result<PendingSave> untold = saver->save(request_of(3, tensors));
  ASSERT_TRUE(untold.ok());
  static_cast<void>(untold->wait());
  const Status raised = saver->save(request_of(4, tensors)).status();
  EXPECT_NE(raised.message().find("save step 3"), std::string::npos) << raised.message();
  fail(4);
  EXPECT_TRUE(saver->wait().ok());
  is_broken = false;
  EXPECT_TRUE(save_through(*saver, request_of(5, tensors)).ok());
  EXPECT_TRUE(saver->close().ok());
}

TEST(CheckpointerErrorsTest, room_for_one_more_is_looked_for_before_the_copy) {
  const testing::TempDir dir;
  SaverOptions options = quiet_options(dir.path());
  options.free_bytes = [](const std::string&) -> Result<std::uint64_t> {
    return std::uint64_t{4096 + 39};
  };
  const auto saver = make_saver(std::move(options));
  EXPECT_EQ(saver->save(request_of(1, {counted("w", 10, 1)})).status().code(), Code::no_space);
  EXPECT_TRUE(save_through(*saver, request_of(1, {counted("w", 9, 1)})).ok());
}

/// Fails to take checkpoints out of sight, or to remove them afterwards.
class NoRetentionFileOps final : public ForwardingFileOps {
 public:
  explicit NoRetentionFileOps(bool can_hide)
      : ForwardingFileOps(posix_file_ops()), can_hide_(can_hide) {}

  Status rename(const PathAt& from, const PathAt& to) override {
    if (!can_hide_ && to.last().starts_with("retire-")) return Status(Code::io_error, "rename");
    return ForwardingFileOps::rename(from, to);
  }
  Status unlink(const PathAt& path) override {
    if (path.text().find("/remove-") != std::string::npos) return Status(Code::io_error, "unlink");
    return ForwardingFileOps::unlink(path);
  }

 private:
  bool can_hide_;
};

TEST(CheckpointerErrorsTest, retention_can_fail_without_undoing_the_commit) {
  for (const bool can_hide : {false, true}) {
    const testing::TempDir dir;
    NoRetentionFileOps ops(can_hide);
    SaverOptions options = quiet_options(dir.path());
    options.ops = &ops;
    options.retention = {.keep_last = 1};
    const auto saver = make_saver(std::move(options));
    ASSERT_TRUE(save_through(*saver, request_of(1, {counted("w", 9, 1)})).ok());
    const Result<PendingSave> pending = saver->save(request_of(2, {counted("w", 9, 2)}));
    ASSERT_TRUE(pending.ok());
    // Blocks are freed after the save was acknowledged: the next call tells.
    EXPECT_EQ(pending->wait().ok(), can_hide);
    EXPECT_TRUE(pending->is_durable());
    const Status told = saver->wait();
    EXPECT_EQ(told.code(), Code::io_error);
    EXPECT_NE(told.message().find("save step 2: it is committed, but retention failed"),
              std::string_view::npos)
        << told.message();
    EXPECT_TRUE(saver->wait().ok()) << "told once";
    EXPECT_EQ(exists(dir.file(step_name(1))), !can_hide);
  }
}

TEST(CheckpointerErrorsTest, what_fails_behind_a_commit_does_not_cost_the_next_save) {
  const testing::TempDir dir;
  NoRetentionFileOps ops(/*can_hide=*/false);
  SaverOptions options = quiet_options(dir.path());
  options.ops = &ops;
  options.retention = {.keep_last = 1};
  const auto saver = make_saver(std::move(options));
  for (const std::uint64_t step : {1U, 2U, 3U, 4U}) {
    const Result<PendingSave> pending = saver->save(request_of(step, {counted("w", 9, 1)}));
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    EXPECT_EQ(pending->wait().ok(), step == 1) << "its own pending tells";
    EXPECT_TRUE(pending->is_durable());
  }
  EXPECT_EQ(saver->wait().code(), Code::io_error) << "and so does this, once";
  EXPECT_TRUE(saver->close().ok());
  for (const std::uint64_t step : {1U, 2U, 3U, 4U})
    testing::expect_whole(dir.file(step_name(step)));
}

TEST(CheckpointerErrorsTest, a_directory_that_is_replaced_gets_the_next_save) {
  const testing::TempDir dir;
  const std::string old = dir.file("old");
  const std::string path = dir.file("run");
  for (const bool is_removed : {false, true}) {
    const auto saver = make_saver(quiet_options(path));
    ASSERT_TRUE(save_through(*saver, request_of(1, {counted("w", 9, 1)})).ok());
    if (is_removed)
      std::filesystem::remove_all(path);
    else
      std::filesystem::rename(path, old);
    ASSERT_TRUE(save_through(*saver, request_of(2, {counted("w", 9, 2)})).ok());
    ASSERT_TRUE(save_through(*saver, request_of(3, {counted("w", 9, 3)})).ok());
    EXPECT_TRUE(saver->close().ok());
    testing::expect_whole(path + "/" + step_name(2));
    testing::expect_whole(path + "/" + step_name(3));
    EXPECT_FALSE(exists(old + "/" + step_name(2)));
    std::filesystem::remove_all(path);
  }
}

TEST(CheckpointerErrorsTest, close_gives_up_what_does_not_end_in_time) {
  const testing::TempDir dir;
  // Never destroyed: the writer's thread, which is given up, uses them until the process ends.
  static auto& gate = *new Gate("checkpoint.staged_dir");
  static auto& ops = *new GatedFileOps(gate);
  SaverOptions options = quiet_options(dir.path());
  options.ops = &ops;
  const auto saver = make_saver(std::move(options));
  const Result<PendingSave> pending = saver->save(request_of(1, {counted("w", 10, 1)}));
  ASSERT_TRUE(pending.ok());
  gate.await();
  EXPECT_EQ(saver->close(nanoseconds(1)).code(), Code::unavailable);
  gate.open();
  EXPECT_TRUE(pending->wait().ok());
}

}  // namespace
}  // namespace stoker
