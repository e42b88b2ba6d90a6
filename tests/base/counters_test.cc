#include "base/counters.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace stoker {
namespace {

TEST(CountersTest, counter_adds_up) {
  Counter counter;
  EXPECT_EQ(counter.value(), 0U);
  counter.add();
  counter.add(41);
  EXPECT_EQ(counter.value(), 42U);
}

TEST(CountersTest, reader_sees_a_counter_only_grow) {
  constexpr std::uint64_t kAdds = 20'000;
  Counter counter;
  std::jthread writer([&] {
    for (std::uint64_t i = 0; i < kAdds; ++i) counter.add();
  });
  std::uint64_t last = 0;
  while (last < kAdds) {
    const std::uint64_t now = counter.value();
    ASSERT_GE(now, last);
    last = now;
  }
  EXPECT_EQ(last, kAdds);
}

TEST(CountersTest, shared_counter_loses_nothing) {
  constexpr std::uint64_t kAdds = 10'000;
  SharedCounter counter;
  {
    std::vector<std::jthread> writers;
    for (int i = 0; i < 4; ++i) {
      writers.emplace_back([&] {
        for (std::uint64_t n = 0; n < kAdds; ++n) counter.add(2);
      });
    }
  }
  EXPECT_EQ(counter.value(), 4 * 2 * kAdds);
}

}  // namespace
}  // namespace stoker
