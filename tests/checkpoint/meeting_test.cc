#include "checkpoint/meeting.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

#include "checkpoint/names.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

constexpr std::uint32_t kRanks = 3;

/// Ends a test that would otherwise hang; no result depends on it.
Deadline in_the_end() {
  return deadline_after(std::chrono::seconds(60));
}

Result<std::string> meet_in(const testing::TempDir& dir, std::uint32_t rank, Deadline deadline,
                            std::uint32_t world_size = kRanks) {
  Result<std::string> session = meet_ranks(
      posix_file_ops(),
      {.directory = dir.path(), .word = "test", .rank = rank, .world_size = world_size}, deadline);
  if (session.ok() && rank == 0)
    std::filesystem::create_directory(dir.file(owner_name(*session)));  // what the lock does
  return session;
}

std::vector<Result<std::string>> meet_all(const testing::TempDir& dir, Deadline deadline,
                                          const std::vector<std::uint32_t>& ranks) {
  std::vector<Result<std::string>> sessions(ranks.size(), Status(Code::cancelled, ""));
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] { sessions[i] = meet_in(dir, ranks[i], deadline); });
  threads.clear();
  return sessions;
}

TEST(MeetingTest, all_ranks_get_one_session_and_each_meeting_another) {
  const testing::TempDir dir;
  std::set<std::string> seen;
  for (int meeting = 0; meeting < 10; ++meeting) {
    const auto sessions = meet_all(dir, in_the_end(), {2, 0, 1});
    for (const auto& session : sessions) {
      ASSERT_TRUE(session.ok()) << session.status().message();
      EXPECT_EQ(*session, *sessions[0]);
    }
    EXPECT_TRUE(seen.insert(*sessions[0]).second) << "what was left of the last one was not heard";
  }
}

TEST(MeetingTest, a_rank_that_is_missing_is_named_on_all_others) {
  const testing::TempDir dir;
  for (int attempt = 0; attempt < 2; ++attempt) {  // the second finds what the first has left
    const auto sessions = meet_all(dir, deadline_after(milliseconds(2000)), {0, 1});
    for (const auto& session : sessions) {
      EXPECT_EQ(session.status().code(), Code::unavailable);
      EXPECT_EQ(session.status().message(), "rank 2 did not answer in time in " + dir.path());
    }
  }
  const auto alone = meet_in(dir, 1, deadline_after(milliseconds(20)));
  EXPECT_EQ(alone.status().message(), "rank 0 did not answer in time in " + dir.path());
}

TEST(MeetingTest, another_number_of_ranks_is_another_meeting) {
  const testing::TempDir dir;
  const Deadline soon = deadline_after(milliseconds(50));
  Result<std::string> other = Status(Code::cancelled, "");
  {
    const std::jthread two([&] { other = meet_in(dir, 1, soon, 2); });
    EXPECT_EQ(meet_in(dir, 0, soon, 3).status().message(),
              "rank 1 did not answer in time in " + dir.path());
  }
  EXPECT_EQ(other.status().message(), "rank 0 did not answer in time in " + dir.path());
}

TEST(MeetingTest, goes_on_when_its_files_are_swept_or_are_nonsense) {
  const testing::TempDir dir;
  const std::string folder = dir.file("owner-meeting-test-2");
  std::filesystem::create_directory(folder);
  std::ofstream(folder + "/welcome-0") << "{\"nonces\": 3}";
  std::ofstream(folder + "/hello-1") << "stale";
  int sweeps = 0;
  const auto sweep = [&](nanoseconds) -> Status {
    std::error_code file_just_written;  // by the other rank: then the folder stays
    if (++sweeps < 4) std::filesystem::remove_all(folder, file_just_written);
    std::this_thread::yield();
    return {};
  };
  Result<std::string> follower = Status(Code::cancelled, "");
  std::jthread other([&] { follower = meet_in(dir, 1, in_the_end(), 2); });
  const auto session = meet_ranks(
      posix_file_ops(),
      {.directory = dir.path(), .word = "test", .rank = 0, .world_size = 2, .pause = sweep},
      in_the_end());
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::filesystem::create_directory(dir.file(owner_name(*session)));
  other.join();
  ASSERT_TRUE(follower.ok()) << follower.status().message();
  EXPECT_EQ(*follower, *session);
}

TEST(MeetingTest, an_error_of_the_pause_ends_it) {
  const testing::TempDir dir;
  const auto interrupt = [](nanoseconds) { return Status(Code::cancelled, "interrupted"); };
  for (const std::uint32_t rank : {0U, 1U}) {
    const auto session = meet_ranks(posix_file_ops(),
                                    {.directory = dir.path(),
                                     .word = "test",
                                     .rank = rank,
                                     .world_size = 2,
                                     .pause = interrupt},
                                    in_the_end());
    EXPECT_EQ(session.status().code(), Code::cancelled);
  }
  clear_meeting(posix_file_ops(), {.directory = dir.path(), .word = "test", .world_size = 2});
  EXPECT_EQ(dir.entry_count(), 0);
}

}  // namespace
}  // namespace stoker
