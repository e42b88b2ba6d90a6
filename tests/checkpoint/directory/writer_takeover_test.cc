// The lock between hosts, where nobody sees the other's flock: epochs, and the fence.
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/lock_support.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;
using testing::BlindFileOps;
using testing::epoch_in;
using testing::FakeTime;
using testing::machine_of;
using testing::opened;
using testing::write_epoch;

/// Counts how often an epoch is opened to be read.
class CountingFileOps final : public ForwardingFileOps {
 public:
  CountingFileOps() : ForwardingFileOps(posix_file_ops()) {}
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    if (path.last() == ".lock-1") ++looks;
    return ForwardingFileOps::open(path, flags);
  }
  int looks = 0;
};

/// A writer on the machine "far" has the first epoch.
class WriterTakeoverTest : public ::testing::Test {
 protected:
  WriterTakeoverTest() {
    far_ = {.token = "far", .machine = machine_of("far"), .device = 5, .pid = 7, .job = "42"};
    say();
    fs::create_directories(staging_);
  }
  void say() const { write_epoch(dir_.path(), 1, far_); }

  Result<std::unique_ptr<WriterLock>> acquire(nanoseconds timeout,
                                              std::optional<Machine> machine = {}) {
    return WriterLock::acquire(run_, time_.options(timeout, std::move(machine)));
  }
  void expect_refused(nanoseconds timeout, std::optional<Machine> machine = {}) {
    const auto refused = acquire(timeout, std::move(machine));
    EXPECT_EQ(refused.status().code(), Code::unavailable);
    EXPECT_NE(refused.status().message().find("pid 7 on far (job 42)"), std::string_view::npos)
        << refused.status().message();
  }

  const testing::TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
  const std::string staging_ = dir_.file("owner-far/step-000000000001-1");
  LockRecord far_;
  FakeTime time_;
};

TEST_F(WriterTakeoverTest, another_host_is_taken_for_dead_after_its_silence_and_fenced) {
  expect_refused(seconds(59));
  CountingFileOps ops;
  const Deadline began = time_.now();
  const auto taken = WriterLock::acquire(run_.with(ops), time_.options(seconds(300)));
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_GE(time_.now() - began, seconds(60));
  EXPECT_LT(time_.now() - began, seconds(90));
  EXPECT_GE(ops.looks, 8) << "it was opened anew for each look";
  EXPECT_EQ(epoch_in(dir_.path(), 2)->token, (*taken)->token());
  EXPECT_FALSE(fs::exists(dir_.file(".lock-1")));
  // The late writer wakes up, and its rename has no source.
  EXPECT_EQ(posix_file_ops().rename(staging_, dir_.file("step-000000000001")).code(),
            Code::not_found);
  EXPECT_FALSE(fs::exists(dir_.file("owner-far")));
}

TEST_F(WriterTakeoverTest, few_long_looks_are_not_enough) {
  // Time jumps by almost a quarter of the ttl at each look: 60 s have passed after four of them.
  time_.on_pause = [&] { time_.pass(seconds(11)); };
  CountingFileOps ops;
  const auto taken = WriterLock::acquire(run_.with(ops), time_.options(seconds(600)));
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_GE(ops.looks, 8);
}

TEST_F(WriterTakeoverTest, another_host_that_gives_signs_of_life_is_left_alone) {
  time_.on_pause = [&] {
    ++far_.beat;
    say();
  };
  expect_refused(seconds(600));
  EXPECT_TRUE(fs::exists(staging_));
}

TEST_F(WriterTakeoverTest, one_sign_of_life_in_time_starts_the_silence_over) {
  const Deadline began = time_.now();
  time_.on_pause = [&] {
    if (time_.now() - began < seconds(55)) return;
    if (far_.beat == 0) {
      ++far_.beat;
      say();
    }
  };
  ASSERT_TRUE(acquire(seconds(600)).ok());
  EXPECT_GE(time_.now() - began, seconds(115));
}

TEST_F(WriterTakeoverTest, an_observer_that_was_stopped_itself_starts_over) {
  // Stopped for a minute every time: the holder may have been stopped as long.
  time_.on_pause = [&] { time_.pass(seconds(16)); };
  expect_refused(seconds(600));
  // Stopped once, at the end.
  const Deadline began = time_.now();
  bool was_stopped = false;
  time_.on_pause = [&] {
    if (time_.now() - began < seconds(50) || std::exchange(was_stopped, true)) return;
    time_.pass(seconds(3600));
  };
  ASSERT_TRUE(acquire(seconds(36'000)).ok());
  EXPECT_GE(time_.now() - began, seconds(50 + 3600 + 60));
}

TEST_F(WriterTakeoverTest, the_times_of_files_and_clocks_of_walls_say_nothing) {
  for (const auto age : {std::chrono::hours(-24), std::chrono::hours(24)}) {
    fs::last_write_time(dir_.file(".lock-1"), fs::file_time_type::clock::now() - age);
    expect_refused(seconds(59));
  }
}

TEST_F(WriterTakeoverTest, the_same_machine_and_disk_with_a_free_flock_need_no_silence) {
  far_.machine.boot_id = this_machine().boot_id;  // another container of this machine
  far_.device = testing::device_of(run_);
  say();
  const auto taken = acquire(nanoseconds(0));
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_EQ(time_.pause_count, 0);
  EXPECT_FALSE(fs::exists(staging_));
}

TEST_F(WriterTakeoverTest, the_same_machine_with_another_disk_or_the_reverse_is_waited_for) {
  far_.machine.boot_id = this_machine().boot_id;
  say();
  expect_refused(seconds(59));
  far_.machine = machine_of("far");
  far_.device = testing::device_of(run_);
  say();
  expect_refused(seconds(59));
  // One that has lost its boot id, as in a sandbox without /proc, is no other one of that kind.
  far_.machine.boot_id = "";
  say();
  expect_refused(seconds(59), Machine{.host = "here", .boot_id = ""});
}

TEST_F(WriterTakeoverTest, where_files_cannot_be_locked_the_same_machine_is_waited_for_as_well) {
  far_.machine.boot_id = this_machine().boot_id;
  far_.device = testing::device_of(run_);
  say();
  BlindFileOps ops(BlindFileOps::Locks::unsupported);
  const auto refused = WriterLock::acquire(run_.with(ops), time_.options(seconds(59)));
  EXPECT_EQ(refused.status().code(), Code::unavailable) << "nobody knows whether it is dead";
  EXPECT_TRUE(WriterLock::acquire(run_.with(ops), time_.options(seconds(100))).ok());
}

TEST_F(WriterTakeoverTest, a_mark_of_release_lets_the_next_in_without_waiting) {
  far_.is_released = true;
  say();
  ASSERT_TRUE(acquire(nanoseconds(0)).ok());
  EXPECT_EQ(time_.pause_count, 0);
}

TEST_F(WriterTakeoverTest, a_release_while_it_is_waited_for_ends_the_wait) {
  time_.on_pause = [&] {
    far_.is_released = true;
    say();
  };
  ASSERT_TRUE(acquire(seconds(600)).ok());
  EXPECT_EQ(time_.pause_count, 1);
}

TEST_F(WriterTakeoverTest, a_record_that_nobody_can_read_is_waited_for) {
  for (const std::string text : {"", "{", "[1]", "{\"token\":1}", "null"}) {
    std::ofstream(dir_.file(".lock-5")) << text;
    EXPECT_EQ(acquire(seconds(59)).status().code(), Code::unavailable) << text;
  }
  ASSERT_TRUE(acquire(seconds(300)).ok());
  EXPECT_TRUE(fs::exists(dir_.file(".lock-6")));
}

TEST_F(WriterTakeoverTest, what_is_no_file_is_no_epoch_and_is_not_touched) {
  far_.is_released = true;
  say();
  fs::create_symlink(dir_.file("elsewhere"), dir_.file(".lock-8"));
  fs::create_directory(dir_.file(".lock-9"));
  ASSERT_TRUE(acquire(nanoseconds(0)).ok());
  EXPECT_TRUE(fs::is_symlink(dir_.file(".lock-8")));
  EXPECT_TRUE(fs::is_directory(dir_.file(".lock-9")));
  EXPECT_FALSE(fs::exists(dir_.file("elsewhere")));
}

TEST_F(WriterTakeoverTest, another_that_takes_over_meanwhile_is_waited_for_in_its_turn) {
  LockRecord third{.token = "third", .machine = machine_of("third"), .device = 6, .pid = 9};
  const Deadline began = time_.now();
  time_.on_pause = [&] {
    if (time_.now() - began > seconds(50) && !fs::exists(dir_.file(".lock-2")))
      write_epoch(dir_.path(), 2, third);
  };
  const auto refused = acquire(seconds(100));
  EXPECT_EQ(refused.status().code(), Code::unavailable);
  EXPECT_NE(refused.status().message().find("pid 9 on third"), std::string_view::npos)
      << refused.status().message();
}

TEST_F(WriterTakeoverTest, a_fenced_holder_knows_who_took_over_and_can_acquire_anew) {
  far_.is_released = true;
  say();
  BlindFileOps blind(BlindFileOps::Locks::granted);  // its flock is not seen on other hosts
  const CheckpointDirectory run = run_.with(blind);
  auto first = WriterLock::acquire(run, time_.options(nanoseconds(0), machine_of("one")));
  ASSERT_TRUE(first.ok()) << first.status().message();
  EXPECT_FALSE((*first)->find_successor().has_value());
  auto second = WriterLock::acquire(run, time_.options(seconds(100), machine_of("two")));
  ASSERT_TRUE(second.ok()) << second.status().message();
  const std::string who = "pid " + std::to_string(::getpid()) + " on two";
  EXPECT_EQ((*first)->find_successor(), who);
  EXPECT_FALSE((*second)->find_successor().has_value());
  EXPECT_FALSE(fs::exists((*first)->owner().self().text()));
  // It ends without harm to the other, and waits like everybody else.
  first->reset();
  EXPECT_TRUE(fs::is_directory((*second)->owner().self().text()));
  EXPECT_FALSE(epoch_in(dir_.path(), 3)->is_released);
  const auto refused = WriterLock::acquire(run, time_.options(seconds(1), machine_of("one")));
  EXPECT_NE(refused.status().message().find(who), std::string_view::npos)
      << refused.status().message();
  second->reset();
  EXPECT_TRUE(WriterLock::acquire(run, time_.options(nanoseconds(0), machine_of("one"))).ok());
}

/// Starts at once, on machines that see no lock of each other.
class SimultaneousStartTest : public ::testing::TestWithParam<BlindFileOps::Locks> {};

TEST_P(SimultaneousStartTest, has_exactly_one_holder_and_the_losers_name_it) {
  constexpr int kWriters = 4;
  for (int round = 0; round < 20; ++round) {
    const testing::TempDir dir;
    BlindFileOps ops(GetParam());
    std::vector<Result<std::unique_ptr<WriterLock>>> locks;
    for (int i = 0; i < kWriters; ++i) locks.emplace_back(Status(Code::cancelled, ""));
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < kWriters; ++i)
        threads.emplace_back([&, i] {
          LockOptions options;
          options.machine = machine_of("node" + std::to_string(i));
          locks[static_cast<std::size_t>(i)] =
              WriterLock::acquire(opened(dir.path(), ops), options);
        });
    }
    std::string holder;
    for (int i = 0; i < kWriters; ++i)
      if (locks[static_cast<std::size_t>(i)].ok()) {
        EXPECT_EQ(holder, "");
        holder = "on node" + std::to_string(i);
      }
    ASSERT_NE(holder, "");
    for (const auto& lock : locks) {
      if (lock.ok()) continue;
      EXPECT_EQ(lock.status().code(), Code::unavailable) << lock.status().message();
      EXPECT_NE(lock.status().message().find(holder), std::string_view::npos)
          << lock.status().message();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Locks, SimultaneousStartTest,
                         ::testing::Values(BlindFileOps::Locks::granted,
                                           BlindFileOps::Locks::unsupported),
                         [](const auto& named) {
                           return named.param == BlindFileOps::Locks::granted ? "invisible"
                                                                              : "unsupported";
                         });

}  // namespace
}  // namespace stoker
