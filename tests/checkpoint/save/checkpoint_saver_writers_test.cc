#include <gtest/gtest.h>
#include <unistd.h>

#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/gated_saves.h"
#include "checkpoint/lock_support.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save_support.h"
#include "support/in_child.h"

namespace stoker {
namespace {

using testing::counted;
using testing::exists;
using testing::Gate;
using testing::GatedFileOps;
using testing::make_saver;
using testing::opened;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;
using testing::save_through;

TEST(CheckpointerWritersTest, a_forked_child_can_neither_use_nor_harm_it) {
  const testing::TempDir dir;
  Gate gate("checkpoint.staged_dir");
  GatedFileOps ops(gate);
  SaverOptions options = quiet_options(dir.path());
  options.ops = &ops;
  auto saver = make_saver(std::move(options));
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  const Result<PendingSave> pending = saver->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok());
  gate.await();  // the fork comes in the middle of a save
  const testing::ChildEnd end = testing::in_child([&] {
    if (saver->save(request_of(2, tensors)).status().code() != Code::unsupported) return 1;
    if (saver->wait().code() != Code::unsupported) return 2;
    if (pending->wait().code() != Code::unsupported) return 3;
    saver.reset();
    return 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  gate.open();
  EXPECT_TRUE(pending->wait().ok()) << pending->wait().message();
  EXPECT_TRUE(saver->close().ok());
}

TEST(CheckpointerWritersTest, several_checkpointers_work_side_by_side_but_not_in_one_directory) {
  const testing::TempDir dir;
  const auto one = make_saver(quiet_options(dir.file("one")));
  const auto two = make_saver(quiet_options(dir.file("two")));
  const auto rival = make_saver(quiet_options(dir.file("one")));
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  EXPECT_TRUE(save_through(*one, request_of(1, tensors)).ok());
  EXPECT_TRUE(save_through(*two, request_of(1, tensors)).ok());
  const Status refused = rival->save(request_of(2, tensors)).status();
  EXPECT_EQ(refused.code(), Code::unavailable);
  EXPECT_NE(refused.message().find("pid " + std::to_string(::getpid())), std::string_view::npos);
  EXPECT_TRUE(one->close().ok());
  EXPECT_TRUE(save_through(*rival, request_of(2, tensors)).ok());
}

/// The ranks of a run. They wait for the lock for ever, by a clock of their own.
std::vector<std::unique_ptr<CheckpointSaver>> ranks_in(const std::string& directory,
                                                       std::uint32_t world_size,
                                                       testing::FakeTime& time) {
  std::vector<std::unique_ptr<CheckpointSaver>> savers;
  for (std::uint32_t rank = 0; rank < world_size; ++rank) {
    SaverOptions options = quiet_options(directory);
    options.lock = time.options(kForever);
    options.lock.ttl = nanoseconds(0);
    options.deadline = std::chrono::seconds(40);
    auto made = make_shared_directory_coordinator({.place = opened(directory),
                                                   .word = "job",
                                                   .session = "1",
                                                   .rank = rank,
                                                   .world_size = world_size});
    EXPECT_TRUE(made.ok());
    options.coordinator = *std::move(made);
    savers.push_back(make_saver(std::move(options)));
  }
  return savers;
}

// Whoever closes rank 0 removes its messages.
TEST(CheckpointerWritersTest, rank_0_hears_that_the_others_close_even_if_it_never_had_the_lock) {
  const testing::TempDir dir;
  const auto holder = make_saver(quiet_options(dir.path()));
  const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
  ASSERT_TRUE(save_through(*holder, request_of(1, tensors)).ok());
  testing::FakeTime time;
  std::vector<std::unique_ptr<CheckpointSaver>> savers = ranks_in(dir.path(), 2, time);
  {
    std::jthread other([&] { EXPECT_FALSE(savers[1]->save(request_of(2, tensors)).ok()); });
    EXPECT_FALSE(savers[0]->save(request_of(2, tensors)).ok());
  }
  savers[1].reset();
  const std::string told = dir.file(".meeting-job/message-1-close-1");
  EXPECT_TRUE(exists(told));
  savers[0].reset();
  EXPECT_FALSE(exists(told));
}

// Only rank 1 has no room for one more save.
TEST(CheckpointerWritersTest, a_save_that_is_late_on_one_rank_is_late_on_all) {
  for (const LatePolicy policy : {LatePolicy::skip, LatePolicy::replace}) {
    const testing::TempDir dir;
    Gate gate("checkpoint.staged_dir");
    GatedFileOps ops(gate);
    std::vector<std::unique_ptr<CheckpointSaver>> savers;
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      SaverOptions options = quiet_options(dir.path());
      if (rank == 0) options.ops = &ops;
      options.late = policy;
      options.in_flight = rank == 0 ? 3 : 2;
      auto made = make_shared_directory_coordinator({.place = opened(dir.path()),
                                                     .word = "job",
                                                     .session = "1",
                                                     .rank = rank,
                                                     .world_size = 2});
      ASSERT_TRUE(made.ok());
      options.coordinator = *std::move(made);
      savers.push_back(make_saver(std::move(options)));
    }
    const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
    const auto save_on_all = [&](std::uint64_t step) {
      std::vector<Result<PendingSave>> begun(2, Status(Code::cancelled, ""));
      std::jthread other([&] { begun[1] = savers[1]->save(request_of(step, tensors)); });
      begun[0] = savers[0]->save(request_of(step, tensors));
      other.join();
      return begun;
    };
    const auto first = save_on_all(1);
    gate.await();
    const auto second = save_on_all(2);
    const auto third = save_on_all(3);
    gate.open();
    for (std::uint32_t rank = 0; rank < 2; ++rank) {
      ASSERT_TRUE(first[rank].ok() && second[rank].ok() && third[rank].ok()) << rank;
      ASSERT_TRUE(savers[rank]->wait().ok());
      EXPECT_EQ(first[rank]->outcome(), SaveOutcome::committed);
      const bool replaces = policy == LatePolicy::replace;
      EXPECT_EQ(second[rank]->outcome(), replaces ? SaveOutcome::replaced : SaveOutcome::committed);
      EXPECT_EQ(third[rank]->outcome(), replaces ? SaveOutcome::committed : SaveOutcome::skipped);
    }
    savers[1].reset();
  }
}

// The time of the lock passes only while somebody waits for it.
TEST(CheckpointerWritersTest, the_wait_for_the_lock_ends_before_the_deadline_on_all_ranks) {
  for (const std::uint32_t world_size : {1U, 2U}) {
    const testing::TempDir dir;
    const auto holder = make_saver(quiet_options(dir.path()));
    const std::vector<OwnedTensor> tensors{counted("w", 10, 1)};
    ASSERT_TRUE(save_through(*holder, request_of(1, tensors)).ok());
    testing::FakeTime time;
    std::vector<std::unique_ptr<CheckpointSaver>> savers = ranks_in(dir.path(), world_size, time);
    const auto save_on_all = [&](std::uint64_t step) {
      std::vector<Status> answers(world_size);
      {
        std::vector<std::jthread> threads;
        for (std::uint32_t rank = 0; rank < world_size; ++rank)
          threads.emplace_back([&, rank] {
            const std::vector<OwnedTensor> own{counted("w" + std::to_string(rank), 10, 1)};
            answers[rank] = save_through(*savers[rank], request_of(step, own));
          });
      }
      return answers;
    };
    const Deadline begun = time.now();
    for (const Status& answer : save_on_all(2)) {
      EXPECT_EQ(answer.code(), Code::unavailable);
      const std::string text(answer.message());
      EXPECT_NE(text.find("pid " + std::to_string(::getpid())), std::string::npos) << text;
      EXPECT_NE(text.find("(waited "), std::string::npos) << text;
      EXPECT_NE(text.find("The deadline of this save has ended the wait"), std::string::npos)
          << text;
    }
    EXPECT_LE(time.now() - begun, std::chrono::seconds(40));
    EXPECT_GE(time.now() - begun, std::chrono::seconds(30));
    EXPECT_TRUE(holder->close().ok());
    for (const Status& answer : save_on_all(3)) EXPECT_TRUE(answer.ok()) << answer.message();
    std::vector<std::jthread> closing;  // rank 0 waits for the others to close
    for (std::unique_ptr<CheckpointSaver>& saver : savers)
      closing.emplace_back([&saver] { saver.reset(); });
  }
}

TEST(CheckpointerWritersTest, a_writer_that_was_presumed_dead_cannot_publish) {
  for (const char* point : {"checkpoint.staged_dir", "checkpoint.directory_synced"}) {
    const testing::TempDir dir;
    Gate gate(point);
    GatedFileOps ops(gate);
    SaverOptions options = quiet_options(dir.path());
    options.ops = &ops;
    const auto saver = make_saver(std::move(options));
    const Result<PendingSave> pending = saver->save(request_of(1, {counted("w", 10, 1)}));
    ASSERT_TRUE(pending.ok());
    gate.await();
    const OwnerDirectory successor(opened(dir.path()), "successor");  // on another host
    ASSERT_TRUE(successor.make().ok());
    ASSERT_TRUE(successor.take_over().ok());
    ASSERT_TRUE(successor.sweep().ok());
    gate.open();
    EXPECT_EQ(pending->wait().code(), Code::unavailable) << pending->wait().message();
    EXPECT_NE(pending->wait().message().find("another writer has taken over"),
              std::string_view::npos);
    EXPECT_EQ(pending->outcome(), SaveOutcome::failed);
    EXPECT_FALSE(exists(dir.file("step-000000000001")));
    EXPECT_FALSE(exists(dir.file("latest")));
  }
}

TEST(CheckpointerWritersTest, writers_that_race_for_a_directory_write_one_after_the_other) {
  const testing::TempDir dir;
  constexpr std::uint64_t kEach = 6;
  {
    std::vector<std::jthread> writers;
    for (const std::uint64_t first : {std::uint64_t{0}, kEach})
      writers.emplace_back([&dir, first] {
        for (std::uint64_t step = first; step < first + kEach; ++step) {
          SaverOptions options = quiet_options(dir.path());
          options.lock.timeout = std::chrono::minutes(5);
          const auto saver = make_saver(std::move(options));
          const Status saved = save_through(*saver, request_of(step, {counted("w", 50, 1)}));
          EXPECT_TRUE(saved.ok()) << saved.message();
        }
      });
  }
  std::set<std::uint64_t> generations;
  for (std::uint64_t step = 0; step < 2 * kEach; ++step) {
    testing::expect_whole(dir.file(step_name(step)));
    generations.insert(testing::manifest_in(dir.file(step_name(step))).generation);
  }
  EXPECT_EQ(generations.size(), 2 * kEach);
  EXPECT_EQ(*generations.rbegin(), 2 * kEach);
}

}  // namespace
}  // namespace stoker
