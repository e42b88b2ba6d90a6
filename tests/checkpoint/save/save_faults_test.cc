#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <ostream>
#include <tuple>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/save_support.h"
#include "support/faulty_engine.h"
#include "support/faulty_file_ops.h"

namespace stoker {
namespace {

using testing::counted;
using testing::FaultyEngine;
using testing::FaultyFileOps;
using testing::opened;
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

SaverOptions fault_options(const std::string& directory, FileOps& ops) {
  SaverOptions options = quiet_options(directory);
  options.ops = &ops;
  options.group_limits.group_bytes_min = 1;
  return options;
}

SaveRequest hinted_request(std::uint64_t step, const std::vector<OwnedTensor>& tensors) {
  SaveRequest request = request_of(step, tensors);
  request.tensors[1].likely_unchanged = true;  // linked from the second save on
  return request;
}

/// What is done while a call fails: step 1 is there already, steps 2 and 3 are saved.
struct FaultyWork {
  std::string name;
  RetentionRules retention = {};
  bool is_rewound = false;      ///< Step 2 is there as well, and is saved again from step 1.
  bool has_dead_owner = false;  ///< And something to sweep.

  friend void PrintTo(const FaultyWork& work, std::ostream* out) { *out << work.name; }
};

void must_save(CheckpointSaver& saver, std::uint64_t step) {
  const std::vector<OwnedTensor> tensors = tensors_of(1);
  const Result<PendingSave> pending = saver.save(hinted_request(step, tensors));
  ASSERT_TRUE(pending.ok() && pending->wait().ok());
}

void prepare(const std::string& root, const FaultyWork& work) {
  Result<std::unique_ptr<CheckpointSaver>> first = CheckpointSaver::make(quiet_options(root));
  ASSERT_TRUE(first.ok());
  must_save(**first, 1);
  if (work.is_rewound) must_save(**first, 2);
  ASSERT_TRUE((*first)->close().ok());
  if (!work.has_dead_owner) return;
  for (const std::string& dead : {owner_name("dead") + "/step-1", std::string(".trash-step-1-x")}) {
    std::filesystem::create_directories(root + "/" + dead);
    std::ofstream(root + "/" + dead + "/rank-00000.safetensors") << "half";
  }
}

/// Whatever can be seen is whole, `latest` leads to something whole, and each step is there or not
/// as its outcome says, but for what retention or a rewind has taken.
void expect_sound(const std::string& root, const FaultyWork& work,
                  const std::map<std::uint64_t, std::optional<SaveOutcome>>& outcomes) {
  const Result<Catalog> catalog = list_checkpoints(opened(root));
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  for (const CatalogStep& step : catalog->steps) testing::expect_whole(root + "/" + step.name);
  const auto is_there = [&](std::uint64_t step) {
    return catalog->find(step_name(step)) != nullptr;
  };
  const bool keeps_all = work.retention.keep_last == 0;
  EXPECT_TRUE(is_there(1) || !keeps_all);
  for (const auto& [step, outcome] : outcomes) {
    const bool is_newest = step == 3 || outcomes.at(3) != SaveOutcome::committed;
    if (outcome == SaveOutcome::committed) {
      EXPECT_TRUE(is_there(step) || (!keeps_all && !is_newest)) << step;
    } else if (outcome != SaveOutcome::unknown) {
      EXPECT_TRUE(!is_there(step) || (work.is_rewound && step == 2)) << step;
    }
  }
  // The version that a rewind has replaced stays: under its own name, or as superseded.
  if (work.is_rewound) {
    EXPECT_TRUE(std::ranges::any_of(catalog->steps,
                                    [](const CatalogStep& step) { return step.generation == 2; }));
  }
  EXPECT_TRUE(std::filesystem::exists(root + "/latest/manifest.json"));
}

/// The next writer saves as if nothing had been, and finds nothing in its way.
void expect_next_save_works(const std::string& root, const FaultyWork& work) {
  Result<std::unique_ptr<CheckpointSaver>> next = CheckpointSaver::make(quiet_options(root));
  ASSERT_TRUE(next.ok());
  const std::vector<OwnedTensor> tensors = tensors_of(9);
  const Result<PendingSave> pending = (*next)->save(hinted_request(4, tensors));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
  ASSERT_TRUE((*next)->close().ok());
  for (const auto& entry : std::filesystem::directory_iterator(root))
    EXPECT_FALSE(is_owner_name(entry.path().filename().string()) ||
                 is_trash_name(entry.path().filename().string()))
        << entry.path();
  if (work.retention.keep_last == 0) testing::expect_whole(root + "/step-000000000001");
}

class SaveFaultsTest : public ::testing::TestWithParam<std::tuple<int, FaultyWork>> {
 protected:
  /// Saves 2 and 3 through `ops`, and says what became of them.
  static std::map<std::uint64_t, std::optional<SaveOutcome>> save_two(const std::string& root,
                                                                      FaultyFileOps& ops) {
    const FaultyWork& work = std::get<1>(GetParam());
    SaverOptions options = fault_options(root, ops);
    options.retention = work.retention;
    if (work.is_rewound) options.parent = CheckpointParent{.step = 1, .generation = 1};
    std::map<std::uint64_t, std::optional<SaveOutcome>> outcomes;
    Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(options));
    EXPECT_TRUE(saver.ok());
    for (const std::uint64_t step : {2U, 3U}) {  // the second one links
      const std::vector<OwnedTensor> tensors = tensors_of(static_cast<float>(step));
      const Result<PendingSave> pending = (*saver)->save(hinted_request(step, tensors));
      const Status error = pending.ok() ? pending->wait() : pending.status();
      outcomes[step] = pending.ok() ? pending->outcome() : std::nullopt;
      // Without an error nothing was lost: there was a way around the call that failed.
      EXPECT_TRUE(!error.ok() || outcomes[step] == SaveOutcome::committed);
      EXPECT_TRUE(error.ok() || ops.fired()) << error.message();
      EXPECT_TRUE(error.ok() || error.message().find("step") != std::string_view::npos);
      const Status told = (*saver)->wait();  // once more, and once
      EXPECT_TRUE(!told.ok() || error.ok() || !pending.ok());
      // A removal may fail when the save is long acknowledged.
      EXPECT_TRUE(told.ok() || ops.fired()) << told.message();
      EXPECT_TRUE((*saver)->wait().ok());
    }
    return outcomes;
  }
};

TEST_P(SaveFaultsTest, any_failing_call_leaves_a_clear_error_and_every_other_checkpoint_whole) {
  const auto& [os_error, work] = GetParam();
  int fault = 0;
  for (;; ++fault) {
    ASSERT_LT(fault, kFaultsMax);
    const testing::TempDir dir(fast_parent());
    prepare(dir.path(), work);
    FaultyFileOps ops(posix_file_ops(), fault, os_error, FaultyFileOps::Removals::counted);
    const auto outcomes = save_two(dir.path(), ops);
    SCOPED_TRACE("fault " + std::to_string(fault) + ": " + ops.failed_op());
    // One fault cannot fail two saves.
    EXPECT_TRUE(outcomes.at(2) == SaveOutcome::committed ||
                outcomes.at(3) == SaveOutcome::committed);
    if (!ops.fired()) break;
    expect_sound(dir.path(), work, outcomes);
    expect_next_save_works(dir.path(), work);
    if (HasFailure()) return;
  }
  std::printf("%s: %d calls, errno %d\n", work.name.c_str(), fault, os_error);
  EXPECT_GT(fault, 50);
}

INSTANTIATE_TEST_SUITE_P(
    Errors, SaveFaultsTest,
    ::testing::Combine(::testing::Values(EIO, ENOSPC, EINTR),
                       ::testing::Values(FaultyWork{.name = "plain"},
                                         FaultyWork{.name = "keep_last",
                                                    .retention = {.keep_last = 1}},
                                         FaultyWork{.name = "rewound", .is_rewound = true},
                                         FaultyWork{.name = "dead_owner", .has_dead_owner = true})),
    [](const auto& named) {
      return std::get<1>(named.param).name + "_" + std::to_string(std::get<0>(named.param));
    });

TEST(SaveWriteFaultsTest, any_failing_or_short_write_fails_its_save_and_no_other) {
  for (const std::int64_t result :
       {std::int64_t{-EIO}, std::int64_t{-ENOSPC}, std::int64_t{-EINTR}, std::int64_t{512}}) {
    for (int fault = 0;; ++fault) {
      ASSERT_LT(fault, kFaultsMax);
      const testing::TempDir dir(fast_parent());
      int engines = 0;
      SaverOptions options = quiet_options(dir.path());
      options.engine = [&]() -> Result<std::unique_ptr<Engine>> {
        STOKER_ASSIGN(std::unique_ptr<Engine> target,
                      make_engine(EngineKind::threads, {.depth = 4}));
        if (engines++ > 0) return target;  // a spent engine is never used again
        return std::unique_ptr<Engine>(
            std::make_unique<FaultyEngine>(std::move(target), fault, result));
      };
      Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(options));
      ASSERT_TRUE(saver.ok());
      const std::vector<OwnedTensor> tensors{counted("w", 2'500'000, 1)};  // three chunks
      const Result<PendingSave> pending = (*saver)->save(request_of(1, tensors));
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
      const Result<PendingSave> again = (*saver)->save(request_of(1, tensors));
      ASSERT_TRUE(again.ok()) << again.status().message();
      EXPECT_TRUE(again->wait().ok()) << again->wait().message();
      EXPECT_EQ(engines, 2);
      testing::expect_whole(dir.file("step-000000000001"));
    }
  }
}

}  // namespace
}  // namespace stoker
