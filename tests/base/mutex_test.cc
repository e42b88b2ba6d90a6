#include "base/mutex.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "support/in_child.h"

namespace stoker {
namespace {

struct Guarded {
  Mutex mutex;
  Condition changed;
  int value STOKER_GUARDED_BY(mutex) = 0;
};

TEST(MutexTest, lock_excludes_other_threads) {
  Guarded guarded;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        for (int n = 0; n < 1000; ++n) {
          MutexLock lock(guarded.mutex);
          ++guarded.value;
        }
      });
    }
  }
  MutexLock lock(guarded.mutex);
  EXPECT_EQ(guarded.value, 4000);
}

// The C library's own destructor would wait for the parent's thread, which the child does not have.
TEST(MutexTest, condition_with_a_waiter_is_destroyed_in_a_forked_child) {
  auto guarded = std::make_unique<Guarded>();
  std::jthread waiter([&] {
    MutexLock lock(guarded->mutex);
    guarded->value = 1;
    guarded->changed.notify_one();
    while (guarded->value != 2) guarded->changed.wait(guarded->mutex);
  });
  {
    MutexLock lock(guarded->mutex);
    while (guarded->value != 1) guarded->changed.wait(guarded->mutex);
    // It has let go of the mutex, so it waits.
    const auto destroyed = testing::in_child([&] {
      guarded.reset();
      return 0;
    });
    EXPECT_EQ(destroyed.exit_code, 0);
    guarded->value = 2;
  }
  guarded->changed.notify_one();
}

// Two threads take turns a hundred times: every wake-up must arrive, and each waiter must own the
// mutex again when its wait returns, or ThreadSanitizer objects to the next line.
TEST(MutexTest, notified_waiter_owns_the_mutex_again) {
  constexpr int kTurns = 100;
  Guarded guarded;
  {
    std::jthread even([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        MutexLock lock(guarded.mutex);
        while (guarded.value % 2 != 0) guarded.changed.wait(guarded.mutex);
        ++guarded.value;
        guarded.changed.notify_one();
      }
    });
    std::jthread odd([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        MutexLock lock(guarded.mutex);
        while (guarded.value % 2 != 1) {
          EXPECT_TRUE(guarded.changed.wait_until(guarded.mutex, Deadline::max()));
        }
        ++guarded.value;
        guarded.changed.notify_one();
      }
    });
  }
  MutexLock lock(guarded.mutex);
  EXPECT_EQ(guarded.value, 2 * kTurns);
}

TEST(MutexTest, wait_until_a_moment_that_has_passed_returns_false) {
  Guarded guarded;
  MutexLock lock(guarded.mutex);
  EXPECT_FALSE(guarded.changed.wait_until(guarded.mutex, Clock::now()));
  EXPECT_FALSE(guarded.changed.wait_until(guarded.mutex, Deadline::min()));
}

}  // namespace
}  // namespace stoker
