#include "base/work_together.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "base/mutex.h"

namespace stoker {
namespace {

TEST(WorkTogetherTest, every_thread_works_and_has_ended_afterwards) {
  for (const std::size_t count : {0U, 1U, 2U, 7U}) {
    Mutex mutex;
    std::set<std::thread::id> workers;
    std::atomic<std::size_t> entered = 0;
    work_together(count, [&] {
      {
        const MutexLock lock(mutex);
        workers.insert(std::this_thread::get_id());
      }
      ++entered;
      while (entered < count) std::this_thread::yield();  // so that none of them does it all
    });
    EXPECT_EQ(workers.size(), std::max<std::size_t>(count, 1));
    EXPECT_TRUE(workers.contains(std::this_thread::get_id()));
  }
}

TEST(WorkTogetherTest, what_any_thread_throws_is_thrown_when_all_have_ended) {
  std::atomic<int> entered = 0;
  const auto work = [&] {
    const bool is_last = ++entered == 3;
    while (entered < 3) std::this_thread::yield();
    if (is_last) throw 7;
  };
  EXPECT_THROW(work_together(3, work), int);
  EXPECT_EQ(entered, 3);
}

}  // namespace
}  // namespace stoker
