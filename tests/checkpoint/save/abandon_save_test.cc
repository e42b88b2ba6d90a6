// A rank that abandons a save while rank 0 is slow: what one of them finds, the other finds as
// well.
#include "checkpoint/save/abandon_save.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"
#include "support/faulty_file_ops.h"
#include "support/stuck_engine.h"

namespace stoker {
namespace {

using testing::counted;
using testing::opened;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;
using testing::StuckDevice;

constexpr std::uint32_t kRanks = 2;

/// Calls `body` when the writer's thread comes to a crash point.
class StoppedFileOps final : public ForwardingFileOps {
 public:
  StoppedFileOps(std::string point, std::function<void()> body)
      : ForwardingFileOps(posix_file_ops()), point_(std::move(point)), body_(std::move(body)) {}
  void reached(std::string_view point) override {
    if (point == point_) body_();
  }

 private:
  const std::string point_;
  const std::function<void()> body_;
};

/// Of a rank whose clock the test has in its hand: nothing is late but what `end_heard` and
/// `part_heard` make so.
class TestCoordinator final : public Coordinator {
 public:
  struct Hooks {
    /// Before the end of the first save is heard, on another rank than 0; an error is heard
    /// instead.
    std::function<Status()> end_heard = {};
    /// When rank 0 has heard all parts of the first save.
    std::function<void(Deadline)> part_heard = {};
  };
  TestCoordinator(const std::string& directory, std::uint32_t rank, Hooks hooks)
      : hooks_(std::move(hooks)) {
    auto made = make_shared_directory_coordinator({.place = opened(directory),
                                                   .word = "job",
                                                   .session = "1.0",
                                                   .rank = rank,
                                                   .world_size = kRanks});
    EXPECT_TRUE(made.ok()) << made.status().message();
    target_ = *std::move(made);
  }

  std::uint32_t rank() const noexcept override { return target_->rank(); }
  std::uint32_t world_size() const noexcept override { return target_->world_size(); }
  Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                          Deadline deadline) override {
    auto texts = target_->gather(key, text, Deadline::max());
    if (key == "part-1" && hooks_.part_heard) hooks_.part_heard(deadline);
    return texts;
  }
  void withdraw(const std::string& key) override { target_->withdraw(key); }
  Result<std::string> broadcast(const std::string& key, const std::string& text,
                                Deadline /*deadline*/) override {
    if (key == "end-1" && hooks_.end_heard) STOKER_TRY(hooks_.end_heard());
    return target_->broadcast(key, text, Deadline::max());
  }

 private:
  const Hooks hooks_;
  std::unique_ptr<Coordinator> target_;
};

/// What became of step 1 on a rank.
struct Ended {
  std::optional<SaveOutcome> outcome;
  Status error;
};

/// Two ranks save step 1, and step 2 after it.
class AbandonSaveTest : public ::testing::Test {
 protected:
  /// Rank 0 stays at `point` until rank 1, which comes to its deadline meanwhile, has abandoned it.
  void stop_at(std::string point) {
    stopped_ = std::make_unique<StoppedFileOps>(std::move(point), [this] {
      is_there_.come_back();
      has_ended_.await(kForever);
    });
    hooks_[1].end_heard = [this] {
      is_there_.await(kForever);
      return Status(Code::unavailable, "rank 0 did not answer");
    };
  }

  void save(std::uint32_t rank) {
    SaverOptions options = quiet_options(dir_.path());
    options.coordinator = std::make_shared<TestCoordinator>(dir_.path(), rank, hooks_[rank]);
    if (rank == 0 && stopped_ != nullptr) options.ops = stopped_.get();
    if (rank == 0) options.deadline = deadline_;
    if (rank == 0 && engine_) options.engine = engine_;
    const auto saver = testing::make_saver(std::move(options));
    const std::vector<OwnedTensor> tensors{counted("own." + std::to_string(rank), 2'000, 1)};
    const Result<PendingSave> first = saver->save(request_of(1, tensors));
    ASSERT_TRUE(first.ok()) << first.status().message();
    ended_[rank].error = first->wait();
    ended_[rank].outcome = first->outcome();
    if (rank == 1) has_ended_.come_back();
    if (saves_again_) save_next(*saver, tensors);
    EXPECT_EQ(saver->close().ok(), saves_again_) << "told already, or now";
  }

  /// The first error is told to all before.
  static void save_next(CheckpointSaver& saver, const std::vector<OwnedTensor>& tensors) {
    EXPECT_FALSE(saver.save(request_of(2, tensors)).ok());
    const Result<PendingSave> next = saver.save(request_of(2, tensors));
    ASSERT_TRUE(next.ok()) << next.status().message();
    EXPECT_TRUE(next->wait().ok()) << next->wait().message();
  }

  void save_on_both() {
    {
      const std::jthread other([this] { save(1); });
      save(0);
    }
    if (saves_again_) testing::expect_whole(dir_.file("step-000000000002"));
    for (const auto& entry : std::filesystem::directory_iterator(dir_.path()))
      EXPECT_FALSE(is_owner_name(entry.path().filename().string())) << entry.path();
  }

  const testing::TempDir dir_;
  TestCoordinator::Hooks hooks_[kRanks];
  std::unique_ptr<StoppedFileOps> stopped_;
  EngineFactory engine_;
  nanoseconds deadline_ = kForever;
  bool saves_again_ = true;
  StuckDevice is_there_;   // rank 0, where it is to be stopped
  StuckDevice has_ended_;  // the save, on rank 1
  Ended ended_[kRanks];
};

class SlowLeaderTest : public AbandonSaveTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(SlowLeaderTest, that_has_not_published_cannot_after_a_rank_has_abandoned_the_save) {
  stop_at(GetParam());
  save_on_both();
  for (const Ended& ended : ended_) {
    EXPECT_EQ(ended.outcome, SaveOutcome::failed) << ended.error.message();
    EXPECT_EQ(ended.error.code(), Code::unavailable) << ended.error.message();
  }
  EXPECT_NE(ended_[0].error.message().find("abandoned this save"), std::string_view::npos)
      << ended_[0].error.message();
  EXPECT_FALSE(std::filesystem::exists(dir_.file("step-000000000001")));
}

INSTANTIATE_TEST_SUITE_P(Points, SlowLeaderTest,
                         ::testing::Values("checkpoint.staged_dir", "checkpoint.part_written",
                                           "checkpoint.manifest_written",
                                           "checkpoint.directory_synced"),
                         [](const auto& named) {
                           return named.param.substr(named.param.find('.') + 1);
                         });

TEST_F(AbandonSaveTest, what_rank_0_begins_to_write_after_that_lacks_the_other_part_and_fails) {
  stop_at("");
  engine_ = [this] {
    is_there_.come_back();
    has_ended_.await(kForever);
    return make_engine(EngineKind::sync, {});
  };
  save_on_both();
  for (const Ended& ended : ended_) EXPECT_EQ(ended.outcome, SaveOutcome::failed);
  EXPECT_NE(ended_[0].error.message().find("abandoned this save"), std::string_view::npos)
      << ended_[0].error.message();
}

TEST_F(AbandonSaveTest, a_rank_does_not_call_failed_what_rank_0_has_published) {
  stop_at("checkpoint.renamed");
  save_on_both();
  EXPECT_EQ(ended_[1].outcome, SaveOutcome::unknown) << ended_[1].error.message();
  EXPECT_NE(ended_[1].error.message().find("the outcome is unknown"), std::string_view::npos);
  EXPECT_EQ(ended_[0].outcome, SaveOutcome::committed) << ended_[0].error.message();
  testing::expect_whole(dir_.file("step-000000000001"));
}

TEST_F(AbandonSaveTest, a_rank_calls_failed_what_rank_0_has_removed) {
  bool is_broken = true;
  engine_ = [&]() -> Result<std::unique_ptr<Engine>> {
    if (std::exchange(is_broken, false)) return Status(Code::io_error, "broken disk");
    return make_engine(EngineKind::sync, {});
  };
  hooks_[1].end_heard = [this] {
    // Rank 0 speaks when it has removed everything.
    while (!std::filesystem::exists(dir_.file(".meeting-job/message-1.0-end-1-0")))
      std::this_thread::yield();
    return Status(Code::unavailable, "rank 0 did not answer");
  };
  save_on_both();
  for (const Ended& ended : ended_) EXPECT_EQ(ended.outcome, SaveOutcome::failed);
}

TEST_F(AbandonSaveTest, rank_0_commits_nothing_after_the_deadline) {
  deadline_ = std::chrono::milliseconds(300);
  saves_again_ = false;
  hooks_[0].part_heard = [](Deadline deadline) {
    while (Clock::now() < deadline) std::this_thread::yield();
  };
  save_on_both();
  for (const Ended& ended : ended_) {
    EXPECT_EQ(ended.outcome, SaveOutcome::failed) << ended.error.message();
    EXPECT_EQ(ended.error.code(), Code::unavailable) << ended.error.message();
  }
  EXPECT_FALSE(std::filesystem::exists(dir_.file("step-000000000001")));
}

/// Without rank 0: directories as it may have left them.
class UnansweredTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(dir_.file(staging_));
    std::ofstream(dir_.file(staging_ + "/rank-00001.part.json")) << "{}";
  }
  SaveOutcome abandon_with(FileOps& ops) {
    return abandon_save({.store = run_.with(ops), .staging = staging_, .step = 1, .part = part_});
  }
  /// A checkpoint of step 1 whose rank 1 has this file.
  void publish(const CheckpointFile& file) {
    std::filesystem::remove_all(dir_.file(staging_));
    std::filesystem::create_directory(dir_.file("step-000000000001"));
    CheckpointManifest manifest;
    manifest.step = 1;
    manifest.generation = 1;
    manifest.files = {file};
    std::ofstream(dir_.file("step-000000000001/manifest.json"))
        << format_checkpoint_manifest(manifest);
  }

  const testing::TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
  const std::string staging_ = "owner-a/step-000000000001-1";
  const CheckpointFile own_{.name = "rank-00001.safetensors", .size_bytes = 9, .chunks = {{1, 2}}};
  const CheckpointPart part_{.rank = 1, .files = {own_}, .tensors = {}};
};

TEST_F(UnansweredTest, the_second_rank_to_abandon_it_finds_what_the_first_found) {
  EXPECT_FALSE(run_.is_abandoned(staging_));
  EXPECT_EQ(abandon_with(posix_file_ops()), SaveOutcome::failed);
  EXPECT_TRUE(run_.is_abandoned(staging_));
  EXPECT_FALSE(std::filesystem::exists(dir_.file(staging_)));
  EXPECT_EQ(abandon_with(posix_file_ops()), SaveOutcome::failed);
}

TEST_F(UnansweredTest, no_reader_sees_what_was_abandoned_and_the_next_writer_sweeps_it) {
  ASSERT_EQ(abandon_with(posix_file_ops()), SaveOutcome::failed);
  const Result<Catalog> catalog = list_checkpoints(run_);
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  EXPECT_TRUE(catalog->steps.empty());
  const OwnerDirectory next(run_, "next");
  ASSERT_TRUE(next.make().ok() && next.take_over().ok() && next.sweep().ok());
  ASSERT_TRUE(posix_file_ops().rmdir(next.self()).ok());
  EXPECT_TRUE(std::filesystem::is_empty(dir_.path()));
}

TEST_F(UnansweredTest, its_own_files_under_the_name_of_the_step_may_be_this_save) {
  publish(own_);
  EXPECT_EQ(abandon_with(posix_file_ops()), SaveOutcome::unknown);
}

TEST_F(UnansweredTest, other_files_under_the_name_of_the_step_are_of_another_save) {
  CheckpointFile other = own_;
  other.chunks = {{3, 4}};
  publish(other);
  EXPECT_EQ(abandon_with(posix_file_ops()), SaveOutcome::failed);
}

TEST_F(UnansweredTest, what_cannot_be_fenced_is_unknown) {
  for (const int fail_at : {0, 1}) {  // the rename; the fsync after it
    testing::FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    EXPECT_EQ(abandon_with(ops), SaveOutcome::unknown) << ops.failed_op();
  }
}

}  // namespace
}  // namespace stoker
