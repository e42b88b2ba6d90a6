#include "checkpoint/directory/meeting_sweep.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr seconds kTtl{60};
constexpr int kLooksMin = 8;

/// Time passes only when the test says so.
class MeetingSweepTest : public ::testing::Test {
 protected:
  MeetingSweepTest() { EXPECT_TRUE(owner_.make().ok()); }

  std::string meeting(const std::string& word) const { return dir_.file(meeting_name(word)); }
  void say(const std::string& word, const std::string& file, const std::string& text) const {
    fs::create_directories(meeting(word));
    std::ofstream(meeting(word) + "/" + file) << text;
  }
  bool is_there(const std::string& word) const { return fs::exists(meeting(word)); }
  void look(seconds after) { sweep_.look(begin_ + after); }

  const TempDir dir_;
  const OwnerDirectory owner_{opened(dir_.path()), "sweeper"};
  MeetingSweep sweep_{owner_, kTtl};
  const Deadline begin_ = Clock::now();
};

TEST_F(MeetingSweepTest, what_has_not_changed_for_the_ttl_is_removed) {
  say("job", "claim-0-a", "one");
  for (int i = 0; i < kLooksMin; ++i) look(seconds(i * 5));
  look(kTtl - seconds(1));
  EXPECT_TRUE(is_there("job")) << "before the ttl has passed";
  look(kTtl);
  EXPECT_FALSE(is_there("job"));
  EXPECT_TRUE(fs::is_empty(owner_.self().text())) << "moved aside, and not removed";
}

TEST_F(MeetingSweepTest, some_looks_are_needed_however_much_time_has_passed) {
  say("job", "claim-0-a", "one");
  // A machine that slept: the ranks have had no time to send a heartbeat.
  for (int i = 0; i < kLooksMin - 1; ++i) look(i * 10 * kTtl);
  EXPECT_TRUE(is_there("job"));
  look((kLooksMin - 1) * 10 * kTtl);
  EXPECT_FALSE(is_there("job"));
}

TEST_F(MeetingSweepTest, any_change_starts_over) {
  for (const char* const word : {"grows", "rewritten", "replaced", "removed", "still"})
    for (const char* const file : {"claim-0-a", "claim-1-b"}) say(word, file, "text");
  for (int i = 0; i < kLooksMin; ++i) look(seconds(i * 5));
  say("grows", "welcome-a", "text");
  say("rewritten", "claim-0-a", "longer text");
  fs::remove(meeting("removed") + "/claim-1-b");
  // Another file of that name and size, as a heartbeat is published.
  const std::string claim = meeting("replaced") + "/claim-0-a";
  const fs::file_time_type time = fs::last_write_time(claim);
  say("replaced", "new", "next");
  fs::last_write_time(meeting("replaced") + "/new", time);
  fs::rename(meeting("replaced") + "/new", claim);
  look(kTtl);
  EXPECT_FALSE(is_there("still"));
  for (const char* const word : {"grows", "rewritten", "replaced", "removed"})
    EXPECT_TRUE(is_there(word)) << word;
  for (int i = 1; i < kLooksMin; ++i) look(2 * kTtl - seconds(1));
  for (const char* const word : {"grows", "rewritten", "replaced", "removed"})
    EXPECT_TRUE(is_there(word)) << word << ", less than the ttl after its change";
  look(2 * kTtl);
  for (const char* const word : {"grows", "rewritten", "replaced", "removed"})
    EXPECT_FALSE(is_there(word)) << word;
}

TEST_F(MeetingSweepTest, heartbeats_keep_a_meeting_for_ever) {
  say("job", "claim-0-a", "0");
  for (int i = 0; i < 40; ++i) {
    look(seconds(i * 10));
    if (i % 5 == 4) say("job", "claim-0-a", std::string(static_cast<std::size_t>(i), 'x'));
  }
  EXPECT_TRUE(is_there("job"));
}

TEST_F(MeetingSweepTest, a_meeting_of_the_same_name_that_comes_later_has_its_own_time) {
  fs::create_directory(meeting("job"));
  for (int i = 0; i < kLooksMin; ++i) look(seconds(i));
  fs::remove(meeting("job"));
  look(seconds(kLooksMin));
  fs::create_directory(meeting("job"));
  for (int i = 0; i < kLooksMin; ++i) look(kTtl + seconds(i));
  EXPECT_TRUE(is_there("job"));
}

TEST_F(MeetingSweepTest, nothing_else_is_removed) {
  fs::create_directories(dir_.file("step-000000000001"));
  fs::create_directories(dir_.file("meeting-job"));
  std::ofstream(dir_.file(meeting_name("file"))) << "no directory";
  fs::create_directory_symlink("elsewhere", dir_.file(meeting_name("link")));
  for (int i = 0; i <= kLooksMin; ++i) look(i * kTtl);
  for (const std::string& name : {std::string("step-000000000001"), std::string("meeting-job"),
                                  meeting_name("file"), meeting_name("link"), owner_.name()})
    EXPECT_TRUE(fs::exists(fs::symlink_status(dir_.file(name)))) << name;
}

TEST_F(MeetingSweepTest, a_writer_that_was_taken_over_removes_nothing) {
  say("job", "claim-0-a", "one");
  fs::remove(owner_.self().text());
  for (int i = 0; i <= 2 * kLooksMin; ++i) look(i * kTtl);
  EXPECT_TRUE(fs::exists(meeting("job") + "/claim-0-a"));
}

}  // namespace
}  // namespace stoker::testing
