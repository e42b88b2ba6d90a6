#include "checkpoint/ranks/carried_meeting.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "checkpoint/ranks/carried_texts.h"
#include "support/in_child.h"

namespace stoker {
namespace {

using Met = Result<std::unique_ptr<CarriedMeeting>>;

class CarriedMeetingTest : public ::testing::Test {
 protected:
  static Deadline in_the_end() { return deadline_after(std::chrono::seconds(60)); }
  static Deadline soon() { return deadline_after(std::chrono::milliseconds(300)); }

  CarriedMeetingOptions options(std::uint32_t rank, const std::string& purpose = "save") {
    return {.carrier = thread_.carrier(),
            .key = "k",
            .purpose = purpose,
            .other_purposes = {purpose == "save" ? "restore" : "save"},
            .where = "/run",
            .rank = rank,
            .world_size = 2,
            .entered = &entered_[rank],
            .known = known_[rank]};
  }
  /// A process of this machine that has ended.
  static ProcessIdentity ended() {
    ProcessIdentity process = this_process();
    process.started = "0";
    return process;
  }
  Met meet(std::uint32_t rank) { return CarriedMeeting::meet(options(rank), in_the_end()); }
  static void expect_one_session(const Met& leader, const Met& follower) {
    ASSERT_TRUE(leader.ok()) << leader.status().message();
    ASSERT_TRUE(follower.ok()) << follower.status().message();
    EXPECT_EQ((*leader)->session(), (*follower)->session());
    const auto rank_0 = (*leader)->make_coordinator();
    const auto rank_1 = (*follower)->make_coordinator();
    ASSERT_TRUE((*rank_1)->gather("k", "from 1", in_the_end()).ok());
    EXPECT_EQ((*rank_0)->gather("k", "", in_the_end())->at(1), "from 1");
  }
  /// Waits until everything is carried.
  void settle() {
    static_cast<void>(thread_.carrier()->call({.names = {"none"}}, in_the_end(), {}));
  }

  const std::shared_ptr<testing::CarriedTexts> texts_ = std::make_shared<testing::CarriedTexts>();
  const testing::CarrierThread thread_{texts_};
  std::vector<std::string> entered_[2];
  const std::shared_ptr<KnownRanks> known_[2] = {std::make_shared<KnownRanks>(),
                                                 std::make_shared<KnownRanks>()};
};

TEST_F(CarriedMeetingTest, ranks_meet_in_any_order_and_leave_nothing) {
  {
    const Met leader = meet(0);
    expect_one_session(leader, meet(1));
  }
  {
    Met follower = Status(Code::cancelled, "");
    std::jthread waits([&] { follower = meet(1); });
    const Met leader = meet(0);
    waits.join();
    expect_one_session(leader, follower);
  }
  settle();
  EXPECT_TRUE(texts_->all().empty());
}

TEST_F(CarriedMeetingTest, a_session_is_entered_once_and_not_after_its_end) {
  const Met leader = meet(0);
  expect_one_session(leader, meet(1));
  EXPECT_EQ(CarriedMeeting::meet(options(1), soon()).status().code(), Code::unavailable);
  (*leader)->end(in_the_end());  // a call that only rank 0 has made
  entered_[1].clear();
  const Status late = CarriedMeeting::meet(options(1), soon()).status();
  EXPECT_NE(late.message().find("rank 0 did not answer in time in /run"), std::string_view::npos);
  const Met second = meet(0);
  expect_one_session(second, meet(1));
}

TEST_F(CarriedMeetingTest, what_a_start_before_has_left_is_not_entered) {
  CarriedMeetingOptions before = options(0);
  before.process = ended();
  const Met stale = CarriedMeeting::meet(before, in_the_end());
  ASSERT_TRUE(stale.ok());
  EXPECT_EQ(CarriedMeeting::meet(options(1), soon()).status().code(), Code::unavailable);
  const Met leader = meet(0);
  expect_one_session(leader, meet(1));
}

TEST_F(CarriedMeetingTest, two_processes_of_one_rank_are_refused_and_named) {
  const ProcessIdentity self = this_process();
  for (const std::uint32_t rank : {1U, 0U}) {
    const Met leader = meet(0);
    const Met follower = meet(1);
    expect_one_session(leader, follower);
    CarriedMeetingOptions second = options(rank);
    std::vector<std::string> entered;
    second.entered = &entered;
    second.process = ProcessIdentity{.space = self.space, .pid = 1234567, .started = "1"};
    const Status refused = CarriedMeeting::meet(second, in_the_end()).status();
    EXPECT_EQ(refused.code(), Code::already_exists);
    const std::string text(refused.message());
    EXPECT_NE(text.find("pid " + std::to_string(self.pid) + " on"), std::string::npos) << text;
    EXPECT_NE(text.find("pid 1234567 on"), std::string::npos) << text;
    EXPECT_NE(text.find("rank " + std::to_string(rank) + " in /run"), std::string::npos) << text;
  }
}

TEST_F(CarriedMeetingTest, ranks_that_meet_for_different_purposes_are_told_so) {
  const Met leader = meet(0);
  const Status refused = CarriedMeeting::meet(options(1, "restore"), in_the_end()).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("rank 0 does save /run, and rank 1 does restore /run"),
            std::string_view::npos)
      << refused.message();
  expect_one_session(leader, meet(1));
}

TEST_F(CarriedMeetingTest, nobody_waits_for_a_rank_that_has_ended) {
  CarriedMeetingOptions dead = options(1);
  dead.process = ended();
  const Met leader = meet(0);
  const Met follower = CarriedMeeting::meet(dead, in_the_end());
  ASSERT_TRUE(follower.ok()) << follower.status().message();
  const Status lost = (*(*leader)->make_coordinator())->gather("k", "", in_the_end()).status();
  EXPECT_EQ(lost.code(), Code::unavailable);
  EXPECT_NE(lost.message().find("rank 1 has ended (pid "), std::string_view::npos)
      << lost.message();
}

TEST_F(CarriedMeetingTest, a_later_session_knows_who_has_ended_before_it) {
  {
    CarriedMeetingOptions dead = options(1);
    dead.process = ended();
    const Met leader = meet(0);
    ASSERT_TRUE(CarriedMeeting::meet(dead, in_the_end()).ok());
    EXPECT_FALSE((*(*leader)->make_coordinator())->gather("k", "", in_the_end()).ok());
  }
  const Met leader = meet(0);
  const Status lost = (*(*leader)->make_coordinator())->gather("k", "", in_the_end()).status();
  EXPECT_NE(lost.message().find("rank 1 has ended (pid "), std::string_view::npos)
      << lost.message();
}

TEST_F(CarriedMeetingTest, nobody_waits_for_a_rank_0_that_has_ended_before_the_session) {
  known_[1]->learn({.rank = 0, .nonce = {}, .host = "h", .process = ended(), .launcher = {}});
  const Status lost = meet(1).status();
  EXPECT_EQ(lost.code(), Code::unavailable);
  EXPECT_NE(lost.message().find("rank 0 has ended (pid "), std::string_view::npos)
      << lost.message();
}

TEST_F(CarriedMeetingTest, a_store_that_fails_ends_the_wait) {
  std::jthread fails([&] { thread_.carrier()->fail("closed by peer"); });
  EXPECT_EQ(CarriedMeeting::meet(options(1), Deadline::max()).status().message(), "closed by peer");
}

TEST_F(CarriedMeetingTest, a_forked_child_changes_nothing) {
  Met leader = meet(0);
  settle();
  const auto before = texts_->all();
  const testing::ChildEnd end = testing::in_child([&] {
    leader->reset();
    return 0;
  });
  EXPECT_EQ(end.exit_code, 0);
  settle();
  EXPECT_EQ(texts_->all(), before);
}

}  // namespace
}  // namespace stoker
