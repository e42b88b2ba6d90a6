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

}  // namespace
}  // namespace stoker
