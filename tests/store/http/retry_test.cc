#include "store/http/retry.h"

#include <gtest/gtest.h>

#include <chrono>

namespace stoker::testing {
namespace {

using namespace std::chrono_literals;

TEST(RetryTest, delays_double_up_to_five_seconds_and_may_be_nothing) {
  EXPECT_EQ(retry_delay(0, 0), 0ns);
  const nanoseconds longest[] = {50ms, 100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 5s, 5s};
  for (std::uint32_t attempt = 0; attempt < std::size(longest); ++attempt) {
    const auto all = static_cast<std::uint64_t>(longest[attempt].count());
    EXPECT_EQ(retry_delay(attempt, all - 1), longest[attempt] - 1ns);
    EXPECT_EQ(retry_delay(attempt, all), 0ns);
  }
  EXPECT_LT(retry_delay(UINT32_MAX, UINT64_MAX), 5s);
}

TEST(RetryTest, a_request_earns_a_tenth_of_a_retry_and_a_second_earns_one) {
  RetryBudget budget;
  Deadline now = Clock::now();
  while (budget.try_take(now)) {
  }
  for (int i = 0; i < 9; ++i) budget.earn_request();
  EXPECT_FALSE(budget.try_take(now));
  for (int i = 0; i < 2; ++i) budget.earn_request();
  EXPECT_TRUE(budget.try_take(now));
  EXPECT_FALSE(budget.try_take(now));
  now += 1s;
  EXPECT_TRUE(budget.try_take(now));
  EXPECT_FALSE(budget.try_take(now));
}

TEST(RetryTest, no_more_than_fifty_retries_are_saved_up) {
  RetryBudget budget;
  const Deadline later = Clock::now() + 1h;
  int count = 0;
  while (budget.try_take(later)) ++count;
  EXPECT_EQ(count, 50);
}

TEST(AdmissionTest, a_server_that_asks_for_fewer_gets_fewer_and_then_more_again) {
  Admission admission(100);
  int entered = 0;
  for (int i = 0; i < 100; ++i) {
    while (admission.try_enter(true)) ++entered;
    admission.succeeded();
  }
  EXPECT_EQ(entered, 100);
  const Deadline sent = Clock::now();
  admission.throttled(sent, sent + 10ms);
  EXPECT_DOUBLE_EQ(admission.limit(), 70);
  admission.throttled(sent, sent + 700ms);  // the others of the same burst
  admission.throttled(sent + 10ms, sent + 700ms);
  EXPECT_DOUBLE_EQ(admission.limit(), 70);
  admission.throttled(sent + 11ms, sent + 20ms);
  EXPECT_DOUBLE_EQ(admission.limit(), 49);
  for (int i = 0; i < 52; ++i) admission.leave();
  EXPECT_TRUE(admission.try_enter(true));
  EXPECT_FALSE(admission.try_enter(true));
  for (int i = 0; i < 49; ++i) admission.succeeded();
  EXPECT_NEAR(admission.limit(), 50, 0.1);
  for (int i = 0; i < 10'000; ++i) admission.succeeded();
  EXPECT_DOUBLE_EQ(admission.limit(), 100);
}

TEST(AdmissionTest, a_new_server_gets_a_few_requests_at_first_and_then_all) {
  Admission admission(100);
  EXPECT_DOUBLE_EQ(admission.limit(), 32);
  for (int i = 0; i < 10; ++i) admission.succeeded();
  EXPECT_DOUBLE_EQ(admission.limit(), 32);  // only one at a time was sent
  for (int i = 0; i < 15; ++i) EXPECT_TRUE(admission.try_enter(true));
  for (int i = 0; i < 10; ++i) admission.succeeded();
  EXPECT_DOUBLE_EQ(admission.limit(), 33);
  while (admission.try_enter(true)) {
  }
  for (int i = 0; i < 10; ++i) admission.succeeded();
  EXPECT_DOUBLE_EQ(admission.limit(), 43);
  while (admission.try_enter(true)) {
  }
  for (int i = 0; i < 100; ++i) {
    admission.succeeded();
    while (admission.try_enter(true)) {
    }
  }
  EXPECT_DOUBLE_EQ(admission.limit(), 100);
  EXPECT_DOUBLE_EQ(Admission(8).limit(), 8);
}

TEST(AdmissionTest, the_limit_of_a_server_is_found_with_fewer_refusals_than_there_are_retries) {
  // Requests of equal length, in rounds: the server answers some of each and refuses the others.
  for (const int capacity : {6, 8, 20, 100}) {
    Admission admission(256);
    RetryBudget budget;
    Deadline now = Clock::now();
    int waiting = 2000;
    int retries = 0;
    for (int round = 0; waiting > 0; ++round, now += 10ms) {
      ASSERT_LT(round, 5000) << capacity;
      int sent = 0;
      while (sent < waiting && admission.try_enter(true)) ++sent;
      for (int i = 0; i < sent; ++i) {
        admission.leave();
        if (i < capacity) {
          budget.earn_request();
          admission.succeeded();
          --waiting;
        } else {
          ++retries;
          admission.throttled(now, now + 5ms);
          EXPECT_TRUE(budget.try_take(now)) << capacity << ": round " << round;
        }
      }
    }
    EXPECT_LE(retries, 50 + 2000 / 10 + 20) << capacity;
  }
}

TEST(AdmissionTest, who_has_no_request_in_flight_may_send_one) {
  Admission admission(1);
  EXPECT_TRUE(admission.try_enter(true));
  EXPECT_FALSE(admission.try_enter(true));
  EXPECT_TRUE(admission.try_enter(false));
  admission.leave();
  EXPECT_FALSE(admission.try_enter(true));
}

TEST(AdmissionTest, one_request_at_a_time_is_always_admitted) {
  Admission admission(4);
  Deadline now = Clock::now();
  for (int i = 0; i < 20; ++i, now += 1s) admission.throttled(now, now);
  EXPECT_DOUBLE_EQ(admission.limit(), 1);
  EXPECT_TRUE(admission.try_enter(true));
}

}  // namespace
}  // namespace stoker::testing
