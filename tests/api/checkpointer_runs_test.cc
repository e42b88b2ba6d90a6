// Checkpointers of several ranks, in forked and killed processes, and at their end.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "api/checkpoints.h"
#include "support/in_child.h"

namespace stoker {
namespace {

using testing::CheckpointTest;
using testing::ChildEnd;
using testing::counted;
using testing::has;
using testing::in_child;
using namespace std::chrono_literals;

TEST_F(CheckpointTest, several_ranks_of_one_process_save_and_restore_together) {
  const auto on_ranks = [&](std::uint32_t count, const std::string& job, const auto& act) {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < count; ++rank)
      threads.emplace_back([&, rank] {
        const auto saver =
            open({.deadline = 60s, .ranks = {.rank = rank, .world_size = count}, .job = job});
        act(*saver, rank);
      });
  };
  on_ranks(2, "first", [&](Checkpointer& saver, std::uint32_t rank) {
    std::vector<float> part{static_cast<float>(2 * rank), static_cast<float>(2 * rank + 1)};
    TensorView slice = tensor(part);
    slice.global_shape = {4};
    slice.offsets = {2 * rank};
    const std::vector<double> same{7, 8};
    std::vector<std::int64_t> own{rank};
    TensorView mine = tensor(own);
    mine.is_per_rank = true;
    save(saver, 5, {{"part", slice}, {"same", tensor(same)}, {"own", mine}});
    own[0] = 9;
    part.assign(2, -1);
    Tree trees = {{"part", slice}, {"same", nullptr}, {"own", mine}};
    EXPECT_EQ(restore(saver, trees).step, 5U);
    EXPECT_EQ(own[0], rank);
    EXPECT_EQ(part[1], static_cast<float>(2 * rank + 1));
  });
  const Result<Checkpoint> opened = Checkpoint::open(directory());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(opened->world_size(), 2U);
  EXPECT_EQ(*opened->read_values<float>("part"), (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(opened->tensors().size(), 4U);  // part, same, and own of each rank

  // One rank: parts are joined, what was equal is taken, and what differs is refused.
  const auto alone = open();
  std::vector<float> whole(4);
  Tree trees = {{"same", nullptr}, {"part", [&] {
                                      TensorView view = tensor(whole);
                                      view.global_shape = {4};
                                      view.offsets = {0};
                                      return view;
                                    }()}};
  const Restored done = restore(*alone, trees);
  EXPECT_EQ(whole, (std::vector<float>{0, 1, 2, 3}));
  EXPECT_EQ(done.left_out, (std::vector<std::string>{"own"}));
  EXPECT_TRUE(has(refused(*alone, {{"own", nullptr}}), "each of the 2 ranks has saved another"));
}

TEST_F(CheckpointTest, a_rank_that_cannot_save_fails_the_save_on_all) {
  std::vector<Status> statuses(2);
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < 2; ++rank)
      threads.emplace_back([&, rank] {
        const auto saver =
            open({.deadline = 60s, .ranks = {.rank = rank, .world_size = 2}, .job = "bad"});
        const Tree tree = {{"text", rank == 1 ? "\xff" : "fine"}};
        const Result<PendingSave> pending = saver->save(1, tree);
        statuses[rank] = pending.ok() ? pending->wait() : pending.status();
      });
  }
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_TRUE(has(status, "text: a text that is not UTF-8")) << status.message();
  }
  EXPECT_TRUE(has(statuses[0], "rank 1")) << statuses[0].message();
}

TEST_F(CheckpointTest, a_forked_child_cannot_save_and_harms_nothing) {
  auto saver = open();
  save(*saver, 1, {{"n", 1}});
  const ChildEnd end = in_child([&] {
    Tree trees = {{"n", nullptr}};
    const bool is_refused = saver->save(2, trees).status().code() == Code::unsupported &&
                            saver->restore(trees).status().code() == Code::unsupported &&
                            saver->wait().code() == Code::unsupported &&
                            saver->close().code() == Code::unsupported;
    const bool is_listed = saver->steps().ok() && saver->steps()->size() == 1;
    const bool is_read = Checkpoint::open(directory()).ok();
    saver.reset();
    return is_refused && is_listed && is_read ? 0 : 1;
  });
  EXPECT_EQ(end.exit_code, 0);
  save(*saver, 2, {{"n", 2}});
}

TEST_F(CheckpointTest, a_forgotten_close_loses_nothing) {
  std::vector<double> weights = counted(1000);
  {
    ASSERT_TRUE(open()->save(3, {{"w", tensor(weights)}}).ok());
  }
  const Result<Checkpoint> opened = Checkpoint::open(directory());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_EQ(*opened->read_values<double>("w"), weights);
}

TEST_F(CheckpointTest, a_closed_checkpointer_says_so) {
  const auto saver = open();
  save(*saver, 1, {{"n", 1}});
  EXPECT_TRUE(saver->close().ok());
  EXPECT_TRUE(saver->close().ok());
  EXPECT_EQ(saver->save(2, {{"n", 1}}).status().code(), Code::invalid_argument);
  const auto next = open({.lock_timeout = 0ns});  // the lock is free
  Tree trees = {{"n", nullptr}};
  restore(*next, trees);
  save(*next, 2, trees);
}

/// A process that saves is killed at some moment: what was acknowledged is there.
TEST_F(CheckpointTest, a_killed_run_continues_from_what_was_acknowledged) {
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const ChildEnd end = in_child([&] {
    std::vector<double> weights(1000);
    const auto saver = open({.keep_last = 2});
    for (std::uint64_t step = 1;; ++step) {
      weights.assign(1000, static_cast<double>(step));
      const auto pending = saver->save(step, {{"w", tensor(weights)}});
      if (!pending.ok()) return 1;
      if (step < 4) {
        if (!pending->wait().ok()) return 1;
        continue;
      }
      if (::write(pipes[1], "x", 1) != 1) return 1;
      ::kill(::getpid(), SIGKILL);  // step 4 may have been written, or not
    }
  });
  EXPECT_EQ(end.signal, SIGKILL);
  ::close(pipes[0]);
  ::close(pipes[1]);
  std::vector<double> weights(1000);
  const auto saver = open({.keep_last = 2});
  Tree trees = {{"w", tensor(weights)}};
  const Restored done = restore(*saver, trees);
  EXPECT_GE(done.step, 3U);
  EXPECT_EQ(weights, std::vector<double>(1000, static_cast<double>(done.step)));
  save(*saver, done.step + 1, trees);
}

}  // namespace
}  // namespace stoker
