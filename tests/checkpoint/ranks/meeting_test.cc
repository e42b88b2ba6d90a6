#include "checkpoint/ranks/meeting.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "checkpoint/ranks/meeting_words.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;
using testing::opened;

constexpr std::uint32_t kRanks = 3;

/// Ends a test that would otherwise hang; no result depends on it.
Deadline in_the_end() {
  return deadline_after(std::chrono::seconds(60));
}

/// A process of that number on one machine.
ProcessIdentity process_of(std::int64_t pid) {
  return {.space = "machine", .pid = pid, .started = std::to_string(pid)};
}

using Met = Result<std::unique_ptr<Meeting>>;

class MeetingTest : public ::testing::Test {
 protected:
  /// Rank 1 is process 101, all of them started by 7.
  MeetingOptions options(std::uint32_t rank, std::uint32_t world_size = kRanks) const {
    return {.place = run_,
            .word = "test",
            .launcher = process_of(7),
            .rank = rank,
            .world_size = world_size,
            .process = process_of(100 + rank),
            .settle = milliseconds(500)};
  }
  /// All of them at once, on threads of their own.
  static std::vector<Met> meet_all(const std::vector<MeetingOptions>& all, Deadline deadline) {
    std::vector<Met> met;
    for (std::size_t i = 0; i < all.size(); ++i) met.emplace_back(Status(Code::cancelled, ""));
    {
      std::vector<std::jthread> threads;
      for (std::size_t i = 0; i < all.size(); ++i)
        threads.emplace_back([&, i] { met[i] = Meeting::meet(all[i], deadline); });
    }
    return met;
  }
  static void expect_one_session(const std::vector<Met>& met) {
    for (const Met& one : met) {
      ASSERT_TRUE(one.ok()) << one.status().message();
      EXPECT_EQ((*one)->session(), (*met[0])->session());
    }
  }
  /// Every one is refused, and hears of these processes.
  static void expect_conflict(const std::vector<Met>& met, const std::vector<const char*>& who) {
    for (const Met& one : met) expect_conflict(one.status(), who);
  }
  static void expect_conflict(const Status& status, const std::vector<const char*>& who) {
    EXPECT_EQ(status.code(), Code::already_exists) << status.message();
    for (const char* const pid : who)
      EXPECT_NE(status.message().find(pid), std::string_view::npos) << status.message();
  }

  /// Whether a file of the meeting begins like this.
  bool has(const std::string& prefix) const {
    std::error_code gone;
    for (const auto& entry : fs::directory_iterator(folder_, gone))
      if (entry.path().filename().string().starts_with(prefix)) return true;
    return false;
  }

  const testing::TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
  const std::string folder_ = dir_.file(".meeting-test");
};

TEST_F(MeetingTest, all_ranks_get_one_session_and_each_meeting_another) {
  std::set<std::string> seen;
  for (int meeting = 0; meeting < 10; ++meeting) {
    const auto met = meet_all({options(2), options(0), options(1)}, in_the_end());
    expect_one_session(met);
    ASSERT_FALSE(HasFailure());
    EXPECT_TRUE(seen.insert((*met[0])->session()).second)
        << "what was left of the last one was not heard";
  }
  EXPECT_EQ(dir_.entry_count(), 0) << "nothing is left of them";
}

TEST_F(MeetingTest, those_who_have_met_can_talk) {
  const auto met = meet_all({options(0), options(1), options(2)}, in_the_end());
  expect_one_session(met);
  const auto follower = (*met[1])->make_coordinator();
  ASSERT_TRUE((*follower)->gather("k", "from 1", in_the_end()).ok());
  ASSERT_TRUE((*(*met[2])->make_coordinator())->gather("k", "from 2", in_the_end()).ok());
  const auto leader = (*met[0])->make_coordinator();
  EXPECT_EQ(*(*leader)->gather("k", "from 0", in_the_end()),
            (std::vector<std::string>{"from 0", "from 1", "from 2"}));
  ASSERT_TRUE((*leader)->broadcast("b", "to all", in_the_end()).ok());
  EXPECT_EQ(*(*follower)->broadcast("b", "", in_the_end()), "to all");
}

TEST_F(MeetingTest, a_rank_that_is_missing_is_named_on_all_others) {
  for (int attempt = 0; attempt < 2; ++attempt) {  // the second finds what the first has left
    const auto met = meet_all({options(0), options(1)}, deadline_after(milliseconds(2000)));
    for (const Met& one : met) {
      EXPECT_EQ(one.status().code(), Code::unavailable);
      EXPECT_EQ(one.status().message(), "rank 2 did not answer in time in " + dir_.path());
    }
  }
  const auto alone = Meeting::meet(options(1), deadline_after(milliseconds(20)));
  EXPECT_EQ(alone.status().message(), "rank 0 did not answer in time in " + dir_.path());
}

TEST_F(MeetingTest, another_word_is_another_meeting) {
  const Deadline soon = deadline_after(milliseconds(50));
  MeetingOptions other = options(1, 2);
  other.word = "other";
  const auto met = meet_all({options(0, 2), other}, soon);
  EXPECT_EQ(met[0].status().message(), "rank 1 did not answer in time in " + dir_.path());
  EXPECT_EQ(met[1].status().message(), "rank 0 did not answer in time in " + dir_.path());
}

TEST_F(MeetingTest, another_number_of_ranks_does_not_meet) {
  const auto met = meet_all({options(0, 3), options(1, 2)}, deadline_after(milliseconds(300)));
  for (const Met& one : met) EXPECT_FALSE(one.ok());
}

TEST_F(MeetingTest, goes_on_when_its_files_are_swept_or_are_nonsense) {
  fs::create_directory(folder_);
  std::ofstream(folder_ + "/welcome-0") << "{\"nonces\": 3}";
  std::ofstream(folder_ + "/welcome-abc") << "[]";
  std::ofstream(folder_ + "/claim-1-stale") << "stale";
  std::ofstream(folder_ + "/claim-99999999999-x") << "{}";
  std::ofstream(folder_ + "/ready-1-stale") << "stale";
  int sweeps = 0;
  MeetingOptions leader = options(0, 2);
  leader.pause = [&](nanoseconds) -> Status {
    std::error_code file_just_written;  // by the other rank: then the folder stays
    if (++sweeps < 4) fs::remove_all(folder_, file_just_written);
    std::this_thread::yield();
    return {};
  };
  const auto met = meet_all({leader, options(1, 2)}, in_the_end());
  EXPECT_GE(sweeps, 1);
  expect_one_session(met);
}

TEST_F(MeetingTest, an_error_of_the_pause_ends_it) {
  for (const std::uint32_t rank : {0U, 1U}) {
    MeetingOptions interrupted = options(rank, 2);
    interrupted.pause = [](nanoseconds) { return Status(Code::cancelled, "interrupted"); };
    EXPECT_EQ(Meeting::meet(interrupted, in_the_end()).status().code(), Code::cancelled);
  }
}

TEST_F(MeetingTest, two_live_claims_to_one_rank_are_refused_on_both_sides_and_both_are_named) {
  MeetingOptions leader = options(0, 2);  // which is not done before both have come
  leader.siblings = [] { return std::vector<std::int64_t>{101, 201}; };
  leader.settle = std::chrono::seconds(3);
  MeetingOptions rival = options(1, 2);
  rival.process = process_of(201);
  const auto met = meet_all({leader, options(1, 2), rival}, in_the_end());
  expect_conflict(met, {"pid 101", "pid 201"});
}

TEST_F(MeetingTest, two_live_claims_to_rank_0_are_refused_on_both_sides_and_both_are_named) {
  MeetingOptions rival = options(0, 2);
  rival.process = process_of(200);
  const auto met = meet_all({options(0, 2), rival}, in_the_end());
  expect_conflict(met, {"pid 100", "pid 200"});
}

TEST_F(MeetingTest, whole_jobs_that_start_at_once_are_refused_on_every_rank) {
  std::vector<MeetingOptions> both;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) both.push_back(options(rank));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    both.push_back(options(rank));
    both.back().process = process_of(200 + rank);
    both.back().launcher = process_of(8);
  }
  for (MeetingOptions& one : both) {  // nobody is done before all have come
    one.siblings = [] { return std::vector<std::int64_t>{100, 101, 102, 200, 201, 202}; };
    one.settle = std::chrono::seconds(3);
  }
  expect_conflict(meet_all(both, in_the_end()), {"pid 1", "pid 2"});
}

TEST_F(MeetingTest, ranks_of_one_machine_that_others_have_started_are_of_another_job) {
  MeetingOptions other = options(1, 2);
  other.launcher = process_of(8);
  const auto met = meet_all({options(0, 2), other}, in_the_end());
  expect_conflict(met, {"pid 100 ", "started by pid 7", "pid 101 ", "started by pid 8"});
}

TEST_F(MeetingTest, launchers_of_two_machines_or_that_nobody_knows_say_nothing) {
  MeetingOptions far = options(1);
  far.launcher.space = far.process->space = "another machine";
  far.launcher.pid = 8;
  MeetingOptions orphan = options(2);
  orphan.launcher = {};
  expect_one_session(meet_all({options(0), far, orphan}, in_the_end()));
}

TEST_F(MeetingTest, one_process_may_claim_a_rank_again) {
  const auto first = meet_all({options(0, 2), options(1, 2)}, in_the_end());
  expect_one_session(first);
  expect_one_session(meet_all({options(0, 2), options(1, 2)}, in_the_end()));
}

TEST_F(MeetingTest, a_live_meeting_refuses_those_who_come_later) {
  const auto first = meet_all({options(0, 2), options(1, 2)}, in_the_end());
  expect_one_session(first);
  MeetingOptions late[2] = {options(0, 2), options(1, 2)};
  for (std::uint32_t rank : {0U, 1U}) late[rank].process = process_of(200 + rank);
  const auto second = meet_all({late[0], late[1]}, in_the_end());
  expect_conflict(second, {"pid 10", "pid 20"});  // whoever of the two says it first
}

TEST_F(MeetingTest, processes_that_may_be_ranks_are_waited_for) {
  // 201 is a sibling, and says a word when the two ranks would be complete.
  MeetingOptions leader = options(0, 2);
  leader.settle = std::chrono::seconds(30);
  std::atomic<int> asked = 0;
  leader.siblings = [&] {
    ++asked;
    return std::vector<std::int64_t>{101, 201};
  };
  MeetingOptions rival = options(1, 2);
  rival.process = process_of(201);
  std::vector<Met> met;
  for (int i = 0; i < 3; ++i) met.emplace_back(Status(Code::cancelled, ""));
  {
    std::jthread one([&] { met[0] = Meeting::meet(leader, in_the_end()); });
    std::jthread two([&] { met[1] = Meeting::meet(options(1, 2), in_the_end()); });
    while (asked < 3) std::this_thread::yield();
    std::jthread three([&] { met[2] = Meeting::meet(rival, in_the_end()); });
  }
  expect_conflict(met, {"pid 101", "pid 201"});
}

TEST_F(MeetingTest, siblings_that_say_nothing_are_not_waited_for_longer_than_that) {
  MeetingOptions leader = options(0, 2);
  leader.settle = milliseconds(200);
  leader.siblings = [] { return std::vector<std::int64_t>{101, 999}; };
  const Deadline began = Clock::now();
  expect_one_session(meet_all({leader, options(1, 2)}, in_the_end()));
  EXPECT_GE(Clock::now() - began, milliseconds(200));
}

TEST_F(MeetingTest, siblings_that_say_nothing_leave_half_of_the_time) {
  MeetingOptions leader = options(0, 2);
  leader.settle = kForever;
  leader.siblings = [] { return std::vector<std::int64_t>{101, 999}; };
  expect_one_session(meet_all({leader, options(1, 2)}, deadline_after(std::chrono::seconds(2))));
}

TEST_F(MeetingTest, a_rank_that_gave_up_when_it_was_counted_joins_the_session_later) {
  std::atomic<bool> is_complete = false;
  std::vector<std::string> attempts;
  MeetingOptions hasty = options(1, 2);
  hasty.attempts = &attempts;
  // Once it is ready it sleeps until rank 0 has its session, and gives up without another look.
  hasty.pause = [&](nanoseconds) {
    if (!has("ready-1-")) return Status();
    while (!is_complete) std::this_thread::yield();
    return Status(Code::cancelled, "gave up");
  };
  std::unique_ptr<Meeting> leader;
  Met first = Status(Code::not_found, "");
  {
    std::jthread one([&] { first = Meeting::meet(hasty, in_the_end()); });
    Met met = Meeting::meet(options(0, 2), in_the_end());
    is_complete = true;
    ASSERT_TRUE(met.ok()) << met.status().message();
    leader = *std::move(met);
  }
  ASSERT_EQ(first.status().code(), Code::cancelled) << "it left without its session";
  hasty.pause = {};
  const Met second = Meeting::meet(hasty, in_the_end());
  ASSERT_TRUE(second.ok()) << second.status().message();
  EXPECT_EQ((*second)->session(), leader->session());
  const auto follower = (*second)->make_coordinator();
  ASSERT_TRUE((*follower)->gather("k", "from 1", in_the_end()).ok());
  EXPECT_EQ((*(*leader->make_coordinator())->gather("k", "", in_the_end()))[1], "from 1");
}

TEST_F(MeetingTest, siblings_that_are_there_are_not_waited_for) {
  MeetingOptions leader = options(0, 2);
  leader.settle = kForever;
  leader.siblings = [] { return std::vector<std::int64_t>{101}; };
  expect_one_session(meet_all({leader, options(1, 2)}, in_the_end()));
}

TEST_F(MeetingTest, what_dead_processes_have_left_does_not_matter) {
  // Killed in the middle of a meeting, so that nothing of it is removed.
  for (std::uint32_t i = 0; i < 2; ++i) {
    std::vector<pid_t> children;
    for (const std::uint32_t rank : {0U, 1U}) {
      children.push_back(::fork());
      if (children.back() != 0) continue;
      ::alarm(60);
      MeetingOptions dead = options(rank);
      dead.process = process_of(300 + 2 * i + rank);
      dead.launcher = process_of(9);
      static_cast<void>(Meeting::meet(dead, in_the_end()));  // rank 2 never comes
      ::_exit(0);
    }
    while (!has("ready-1-")) std::this_thread::yield();
    for (const pid_t child : children) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    EXPECT_TRUE(has("claim-0-") && has("claim-1-") && has("welcome-"));
    expect_one_session(meet_all({options(0), options(1), options(2)}, in_the_end()));
  }
}

TEST_F(MeetingTest, a_rank_that_was_killed_and_started_again_is_no_second_job) {
  MeetingOptions leader = options(0, 3);
  leader.process = this_process();
  std::vector<Met> met;
  for (int i = 0; i < 3; ++i) met.emplace_back(Status(Code::cancelled, ""));
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    MeetingOptions dead = options(1, 3);
    dead.process = this_process();
    static_cast<void>(Meeting::meet(dead, in_the_end()));  // rank 2 is not there yet
    ::_exit(0);
  }
  {
    std::jthread zero([&] { met[0] = Meeting::meet(leader, in_the_end()); });
    while (!has("ready-1-")) std::this_thread::yield();
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    std::jthread one([&] { met[1] = Meeting::meet(options(1, 3), in_the_end()); });
    std::jthread two([&] { met[2] = Meeting::meet(options(2, 3), in_the_end()); });
  }
  expect_one_session(met);
}

TEST_F(MeetingTest, who_looks_at_what_the_dead_have_left_is_not_taken_for_them) {
  fs::create_directory(folder_);
  const RankClaim dead{.rank = 1,
                       .nonce = "dead",
                       .host = "here",
                       .process = process_of(300),
                       .launcher = process_of(7)};
  const std::string path = folder_ + "/" + word_name(kClaimPrefix, dead.rank, dead.nonce);
  std::ofstream(path) << dead.format(0);
  const UniqueFd looking(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_EQ(::flock(looking.get(), LOCK_SH), 0);  // as another rank does to find out
  expect_one_session(meet_all({options(0, 2), options(1, 2)}, in_the_end()));
}

TEST_F(MeetingTest, signs_of_life_are_given_while_it_lasts) {
  MeetingOptions options[2] = {this->options(0, 2), this->options(1, 2)};
  for (MeetingOptions& one : options) one.ttl = milliseconds(8);
  const auto met = meet_all({options[0], options[1]}, in_the_end());
  expect_one_session(met);
  const auto claims = [&] {
    std::string text;
    for (const auto& entry : fs::directory_iterator(folder_))
      if (entry.path().filename().string().starts_with("claim-1-"))
        text = testing::contents_of(entry.path().string());
    return text;
  };
  const std::string before = claims();
  EXPECT_NE(before, "");
  while (claims() == before) std::this_thread::yield();
}

TEST_F(MeetingTest, a_session_that_was_agreed_on_elsewhere_needs_no_meeting) {
  auto one = Meeting::enter(options(0, 2), "agreed");
  auto two = Meeting::enter(options(1, 2), "agreed");
  ASSERT_TRUE(one.ok() && two.ok());
  EXPECT_EQ((*two)->session(), "agreed");
  ASSERT_TRUE((*(*one)->make_coordinator())->broadcast("k", "text", in_the_end()).ok());
  EXPECT_EQ(*(*(*two)->make_coordinator())->broadcast("k", "", in_the_end()), "text");
  two->reset();
  one->reset();
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(MeetingTest, nobody_waits_for_a_member_that_has_ended) {
  for (const bool has_spoken : {false, true}) {
    int ready[2];
    ASSERT_EQ(::pipe(ready), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);
      MeetingOptions member = options(1, 2);
      member.process = {};  // this process itself
      const Met met = Meeting::enter(member, "agreed");
      if (met.ok() && has_spoken)
        static_cast<void>((*(*met)->make_coordinator())->gather("k", "last words", in_the_end()));
      if (::write(ready[1], "x", 1) != 1) ::_exit(1);
      ::pause();
      ::_exit(0);
    }
    const Met met = Meeting::enter(options(0, 2), "agreed");
    ASSERT_TRUE(met.ok());
    char byte = 0;
    ASSERT_EQ(::read(ready[0], &byte, 1), 1);
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const auto coordinator = (*met)->make_coordinator();
    const auto heard = (*coordinator)->gather("k", "", in_the_end());
    if (has_spoken) {
      ASSERT_TRUE(heard.ok()) << "what it has said before counts";
      EXPECT_EQ((*heard)[1], "last words");
    } else {
      EXPECT_EQ(heard.status().code(), Code::unavailable);
      EXPECT_NE(heard.status().message().find("rank 1 has ended (pid " + std::to_string(child)),
                std::string_view::npos)
          << heard.status().message();
    }
    for (const int fd : ready) ::close(fd);
    fs::remove_all(folder_);
  }
}

TEST_F(MeetingTest, a_member_that_left_because_of_a_second_job_is_not_waited_for) {
  auto met = meet_all({options(0, 2), options(1, 2)}, in_the_end());
  expect_one_session(met);
  const auto leader = (*met[0])->make_coordinator();
  std::string nonce;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const auto claim = parse_word_name(entry.path().filename().string(), kClaimPrefix);
    if (claim && claim->first == 0) nonce = claim->second;
  }
  std::ofstream(folder_ + "/refused-1-x") << RankRefusal{{nonce}, "two jobs"}.format();
  const Deadline soon = deadline_after(milliseconds(500));
  const Status alive = (*leader)->gather("a", "", soon).status();
  EXPECT_EQ(alive.message().find("two jobs"), std::string_view::npos)
      << "it is a live session, and the others came later";
  met[1] = Status(Code::cancelled, "");  // leaves
  EXPECT_EQ((*leader)->gather("b", "", in_the_end()).status().message(), "two jobs");
  EXPECT_EQ((*met[0])->conflict(), "two jobs");
}

TEST_F(MeetingTest, a_word_is_a_plain_name_and_a_rank_one_of_them) {
  for (const char* const word : {"", "../x", "a/b", "a b"}) {
    MeetingOptions wrong = options(0);
    wrong.word = word;
    EXPECT_EQ(Meeting::meet(wrong, in_the_end()).status().code(), Code::invalid_argument);
  }
  EXPECT_EQ(Meeting::meet(options(3), in_the_end()).status().code(), Code::invalid_argument);
  EXPECT_EQ(Meeting::meet(options(0, 0), in_the_end()).status().code(), Code::invalid_argument);
  EXPECT_EQ(dir_.entry_count(), 0);
}

}  // namespace
}  // namespace stoker
