#include "base/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <memory>
#include <numeric>
#include <thread>
#include <vector>

namespace stoker {
namespace {

using std::chrono::seconds;

TEST(BoundedQueueTest, holds_capacity_and_no_more) {
  BoundedQueue<int> queue(2);
  EXPECT_EQ(queue.capacity(), 2U);
  EXPECT_TRUE(queue.try_push(1));
  EXPECT_TRUE(queue.push(2));
  EXPECT_EQ(queue.size(), 2U);
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_FALSE(queue.push(3, {}, Clock::now()));
  EXPECT_EQ(queue.size(), 2U);
}

TEST(BoundedQueueTest, hands_out_in_order_round_and_round) {
  BoundedQueue<int> queue(3);
  int next = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(queue.try_push(2 * i));
    ASSERT_TRUE(queue.try_push(2 * i + 1));
    EXPECT_EQ(queue.pop(), next++);
    EXPECT_EQ(queue.try_pop(), next++);
  }
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueueTest, refused_item_is_untouched) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  ASSERT_TRUE(queue.try_push(std::make_unique<int>(1)));
  auto item = std::make_unique<int>(2);
  EXPECT_FALSE(queue.try_push(std::move(item)));
  ASSERT_NE(item, nullptr);  // NOLINT(bugprone-use-after-move): that is the contract
  EXPECT_EQ(**queue.pop(), 1);
}

TEST(BoundedQueueTest, taken_item_leaves_nothing_behind) {
  BoundedQueue<std::shared_ptr<int>> queue(2);
  const auto item = std::make_shared<int>(1);
  ASSERT_TRUE(queue.push(item));
  EXPECT_EQ(item.use_count(), 2);
  EXPECT_EQ(queue.pop(), item);
  EXPECT_EQ(item.use_count(), 1);
}

TEST(BoundedQueueTest, close_refuses_new_items_and_hands_out_old_ones) {
  BoundedQueue<int> queue(3);
  ASSERT_TRUE(queue.push(1));
  ASSERT_TRUE(queue.push(2));
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_FALSE(queue.try_push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.try_pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueueTest, deadline_that_has_passed_does_not_hide_an_item) {
  BoundedQueue<int> queue(1);
  EXPECT_EQ(queue.pop({}, Clock::now()), std::nullopt);
  ASSERT_TRUE(queue.push(1, {}, Deadline::min()));
  EXPECT_EQ(queue.pop({}, Deadline::min()), 1);
}

TEST(BoundedQueueTest, stopped_token_refuses_at_once) {
  BoundedQueue<int> queue(2);
  ASSERT_TRUE(queue.push(1));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_FALSE(queue.push(2, stop.get_token()));
  EXPECT_EQ(queue.pop(stop.get_token()), std::nullopt);
  EXPECT_EQ(queue.pop(), 1);
}

// The outcome of the next three is the same whether the other thread already waits or is still on
// its way; the rounds are there so that both happen.
constexpr int kRounds = 100;

TEST(BoundedQueueTest, stop_wakes_a_waiting_pop) {
  for (int round = 0; round < kRounds; ++round) {
    BoundedQueue<int> queue(1);
    std::latch started(1);
    std::optional<int> item = 7;
    std::jthread consumer([&](std::stop_token stop) {
      started.count_down();
      item = queue.pop(stop);
    });
    started.wait();
    consumer.request_stop();
    consumer.join();
    ASSERT_EQ(item, std::nullopt);
  }
}

TEST(BoundedQueueTest, stop_wakes_a_waiting_push) {
  for (int round = 0; round < kRounds; ++round) {
    BoundedQueue<int> queue(1);
    ASSERT_TRUE(queue.push(1));
    std::latch started(1);
    bool pushed = true;
    std::jthread producer([&](std::stop_token stop) {
      started.count_down();
      pushed = queue.push(2, stop);
    });
    started.wait();
    producer.request_stop();
    producer.join();
    ASSERT_FALSE(pushed);
    ASSERT_EQ(queue.size(), 1U);
  }
}

TEST(BoundedQueueTest, close_wakes_everybody_who_waits) {
  for (int round = 0; round < kRounds; ++round) {
    BoundedQueue<int> empty(1);
    BoundedQueue<int> full(1);
    ASSERT_TRUE(full.push(1));
    std::latch started(4);
    std::atomic<int> refused = 0;
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 2; ++i) {
        threads.emplace_back([&] {
          started.count_down();
          if (!empty.pop()) ++refused;
        });
        threads.emplace_back([&] {
          started.count_down();
          if (!full.push(2)) ++refused;
        });
      }
      started.wait();
      empty.close();
      full.close();
    }
    ASSERT_EQ(refused, 4);
  }
}

// A thread that is stopped just as an item arrives has taken a wake-up that somebody else needs.
// The callback makes the item arrive while the stop can be seen and has not yet been announced to
// the queue, and waits until one of the two threads has been woken. Without the second wake-up the
// patient one gets its item from the deadline.
TEST(BoundedQueueTest, stopped_pop_passes_its_wake_up_on) {
  for (int round = 0; round < kRounds; ++round) {
    BoundedQueue<int> queue(1);
    std::stop_source stop;
    std::latch started(2);
    std::atomic<int> done = 0;
    std::optional<int> item;
    const Deadline deadline = deadline_after(seconds(20));
    std::jthread stopped([&] {
      started.count_down();
      EXPECT_EQ(queue.pop(stop.get_token()), std::nullopt);
      ++done;
      done.notify_all();
    });
    std::jthread patient([&] {
      started.count_down();
      item = queue.pop({}, deadline);
      ++done;
      done.notify_all();
    });
    started.wait();
    const std::stop_callback arrive(stop.get_token(), [&] {
      EXPECT_TRUE(queue.try_push(1));
      done.wait(0);
    });
    stop.request_stop();
    stopped.join();
    patient.join();
    ASSERT_EQ(item, 1);
    ASSERT_LT(Clock::now(), deadline);
  }
}

TEST(BoundedQueueTest, stopped_push_passes_its_wake_up_on) {
  for (int round = 0; round < kRounds; ++round) {
    BoundedQueue<int> queue(1);
    ASSERT_TRUE(queue.push(0));
    std::stop_source stop;
    std::latch started(2);
    std::atomic<int> done = 0;
    const Deadline deadline = deadline_after(seconds(20));
    std::jthread stopped([&] {
      started.count_down();
      EXPECT_FALSE(queue.push(1, stop.get_token()));
      ++done;
      done.notify_all();
    });
    std::jthread patient([&] {
      started.count_down();
      EXPECT_TRUE(queue.push(2, {}, deadline));
      ++done;
      done.notify_all();
    });
    started.wait();
    const std::stop_callback leave(stop.get_token(), [&] {
      EXPECT_EQ(queue.try_pop(), 0);
      done.wait(0);
    });
    stop.request_stop();
    stopped.join();
    patient.join();
    ASSERT_EQ(queue.try_pop(), 2);
    ASSERT_LT(Clock::now(), deadline);
  }
}

TEST(BoundedQueueTest, many_producers_and_consumers_lose_and_double_nothing) {
  constexpr int kProducers = 4;
  constexpr int kEach = 1000;
  BoundedQueue<int> queue(8);
  std::vector<std::vector<int>> taken(3);
  {
    std::vector<std::jthread> consumers;
    for (std::vector<int>& mine : taken) {
      consumers.emplace_back([&] {
        while (const std::optional<int> item = queue.pop()) mine.push_back(*item);
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int producer = 0; producer < kProducers; ++producer) {
        producers.emplace_back([&queue, producer] {
          for (int i = 0; i < kEach; ++i) EXPECT_TRUE(queue.push(producer * kEach + i));
        });
      }
    }
    queue.close();
  }
  std::vector<int> times(kProducers * kEach);
  for (const std::vector<int>& mine : taken) {
    std::vector<int> last(kProducers, -1);
    for (const int item : mine) {
      ++times[static_cast<std::size_t>(item)];
      int& before = last[static_cast<std::size_t>(item / kEach)];
      EXPECT_LT(before, item) << "one consumer saw one producer's items out of order";
      before = item;
    }
  }
  EXPECT_EQ(times, std::vector<int>(kProducers * kEach, 1));
}

}  // namespace
}  // namespace stoker
