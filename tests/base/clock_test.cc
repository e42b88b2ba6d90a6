#include "base/clock.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

using std::chrono::seconds;

constexpr Deadline kNow{seconds(1000)};

TEST(ClockTest, deadline_lies_the_timeout_ahead) {
  EXPECT_EQ(deadline_after(seconds(5), kNow), kNow + seconds(5));
  EXPECT_EQ(deadline_after(nanoseconds(0), kNow), kNow);
}

TEST(ClockTest, forever_and_whatever_else_would_overflow_saturate) {
  EXPECT_EQ(deadline_after(kForever, kNow), Deadline::max());
  EXPECT_EQ(deadline_after(kForever - seconds(1), kNow), Deadline::max());
  EXPECT_EQ(deadline_after(nanoseconds::min(), kNow), Deadline::min() + seconds(1000));
}

TEST(ClockTest, time_left_is_never_negative) {
  EXPECT_EQ(time_left(kNow + seconds(5), kNow), seconds(5));
  EXPECT_EQ(time_left(kNow, kNow), nanoseconds(0));
  EXPECT_EQ(time_left(kNow - seconds(5), kNow), nanoseconds(0));
  EXPECT_EQ(time_left(Deadline::min(), kNow), nanoseconds(0));
}

TEST(ClockTest, no_deadline_leaves_forever) {
  EXPECT_EQ(time_left(deadline_after(kForever, kNow), kNow), kForever);
}

}  // namespace
}  // namespace stoker
