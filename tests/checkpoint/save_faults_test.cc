#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <map>
#include <optional>

#include "checkpoint/save_support.h"
#include "support/faulty_engine.h"
#include "support/faulty_file_ops.h"

namespace stoker {
namespace {

using testing::counted;
using testing::FaultyEngine;
using testing::FaultyFileOps;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;

constexpr int kFaultsMax = 500;

/// Memory where there is some: thousands of fsyncs prove nothing more on a disk.
std::string fast_parent() {
  return ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ::testing::TempDir();
}

std::vector<OwnedTensor> tensors_of(float first) {
  return {counted("w", 3'000, first), counted("frozen", 1'000, 0)};
}

CheckpointerOptions fault_options(const std::string& directory, FileOps& ops) {
  CheckpointerOptions options = quiet_options(directory);
  options.ops = &ops;
  options.group_limits.group_bytes_min = 1;
  return options;
}

SaveRequest hinted_request(std::uint64_t step, const std::vector<OwnedTensor>& tensors) {
  SaveRequest request = request_of(step, tensors);
  request.tensors[1].likely_unchanged = true;  // linked from the second save on
  return request;
}

/// Step 1 is committed and whole, `latest` leads to something whole, and each other step is whole
/// or absent, as its outcome says.
void expect_sound(const std::string& root,
                  const std::map<std::uint64_t, std::optional<SaveOutcome>>& outcomes) {
  testing::expect_whole(root + "/" + step_name(1));
  for (const auto& [step, outcome] : outcomes) {
    const std::string path = root + "/" + step_name(step);
    const bool is_there = std::filesystem::exists(path);
    if (is_there) testing::expect_whole(path);
    if (outcome != SaveOutcome::unknown) {
      EXPECT_EQ(is_there, outcome == SaveOutcome::committed);
    }
  }
  EXPECT_TRUE(std::filesystem::exists(root + "/latest/manifest.json"));
}

/// The next writer saves as if nothing had been, and finds nothing in its way.
void expect_next_save_works(const std::string& root) {
  Result<std::unique_ptr<Checkpointer>> next = Checkpointer::make(quiet_options(root));
  ASSERT_TRUE(next.ok());
  const std::vector<OwnedTensor> tensors = tensors_of(9);
  const Result<Pending> pending = (*next)->save(hinted_request(4, tensors));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
  ASSERT_TRUE((*next)->close().ok());
  for (const auto& entry : std::filesystem::directory_iterator(root))
    EXPECT_FALSE(is_owner_name(entry.path().filename().string()) ||
                 is_trash_name(entry.path().filename().string()))
        << entry.path();
  testing::expect_whole(root + "/step-000000000001");
}

class SaveFaultsTest : public ::testing::TestWithParam<int> {};

TEST_P(SaveFaultsTest, any_failing_call_leaves_a_clear_error_and_every_other_checkpoint_whole) {
  int fault = 0;
  for (;; ++fault) {
    ASSERT_LT(fault, kFaultsMax);
    const testing::TempDir dir(fast_parent());
    {
      Result<std::unique_ptr<Checkpointer>> first = Checkpointer::make(quiet_options(dir.path()));
      ASSERT_TRUE(first.ok());
      const std::vector<OwnedTensor> tensors = tensors_of(1);
      const Result<Pending> pending = (*first)->save(hinted_request(1, tensors));
      ASSERT_TRUE(pending.ok() && pending->wait().ok());
    }
    FaultyFileOps ops(posix_file_ops(), fault, GetParam());
    std::map<std::uint64_t, std::optional<SaveOutcome>> outcomes;
    {
      Result<std::unique_ptr<Checkpointer>> saver =
          Checkpointer::make(fault_options(dir.path(), ops));
      ASSERT_TRUE(saver.ok());
      for (const std::uint64_t step : {2U, 3U}) {  // the second one links
        const std::vector<OwnedTensor> tensors = tensors_of(static_cast<float>(step));
        const Result<Pending> pending = (*saver)->save(hinted_request(step, tensors));
        const Status error = pending.ok() ? pending->wait() : pending.status();
        outcomes[step] = pending.ok() ? pending->outcome() : std::nullopt;
        // Without an error nothing was lost: there was a way around the call that failed.
        EXPECT_TRUE(!error.ok() || outcomes[step] == SaveOutcome::committed);
        EXPECT_TRUE(error.ok() || ops.fired()) << error.message();
        EXPECT_EQ((*saver)->wait().ok(), error.ok() || !pending.ok());  // told once more, and once
        EXPECT_TRUE((*saver)->wait().ok());
      }
    }
    // One fault cannot fail two saves.
    EXPECT_TRUE(outcomes[2] == SaveOutcome::committed || outcomes[3] == SaveOutcome::committed);
    if (!ops.fired()) break;
    SCOPED_TRACE("fault " + std::to_string(fault) + ": " + ops.failed_op());
    expect_sound(dir.path(), outcomes);
    expect_next_save_works(dir.path());
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(fault, 50);
}

INSTANTIATE_TEST_SUITE_P(Errors, SaveFaultsTest, ::testing::Values(EIO, ENOSPC));

TEST(SaveWriteFaultsTest, any_failing_or_short_write_fails_its_save_and_no_other) {
  for (const std::int64_t result : {std::int64_t{-EIO}, std::int64_t{-ENOSPC}, std::int64_t{512}}) {
    for (int fault = 0;; ++fault) {
      ASSERT_LT(fault, kFaultsMax);
      const testing::TempDir dir(fast_parent());
      int engines = 0;
      CheckpointerOptions options = quiet_options(dir.path());
      options.engine = [&]() -> Result<std::unique_ptr<Engine>> {
        STOKER_ASSIGN(std::unique_ptr<Engine> target,
                      make_engine(EngineKind::threads, {.depth = 4}));
        if (engines++ > 0) return target;  // a spent engine is never used again
        return std::unique_ptr<Engine>(
            std::make_unique<FaultyEngine>(std::move(target), fault, result));
      };
      Result<std::unique_ptr<Checkpointer>> saver = Checkpointer::make(std::move(options));
      ASSERT_TRUE(saver.ok());
      const std::vector<OwnedTensor> tensors{counted("w", 2'500'000, 1)};  // three chunks
      const Result<Pending> pending = (*saver)->save(request_of(1, tensors));
      ASSERT_TRUE(pending.ok());
      const Status error = pending->wait();
      if (error.ok()) {
        EXPECT_EQ(fault, 3);
        break;
      }
      EXPECT_EQ(error.code(), result == -ENOSPC ? Code::no_space : Code::io_error);
      EXPECT_NE(error.message().find("rank-00000.safetensors at "), std::string_view::npos)
          << error.message();
      EXPECT_EQ(pending->outcome(), SaveOutcome::failed);
      EXPECT_FALSE(std::filesystem::exists(dir.file("step-000000000001")));
      EXPECT_FALSE((*saver)->wait().ok());
      const Result<Pending> again = (*saver)->save(request_of(1, tensors));
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_TRUE(again->wait().ok()) << again->wait().message();
      EXPECT_EQ(engines, 2);
      testing::expect_whole(dir.file("step-000000000001"));
    }
  }
}

}  // namespace
}  // namespace stoker
