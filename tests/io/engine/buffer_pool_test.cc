#include "io/engine/buffer_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <deque>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "io/engine/arena.h"

namespace stoker {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

BufferPool small_pool(std::size_t budget = 4 * kMiB) {
  return *BufferPool::make({.budget_bytes = budget, .huge_pages = false});
}

/// Waits, without sleeping, until somebody stands in the pool's queue.
void wait_for_waiters(const BufferPool& pool, std::size_t count) {
  while (pool.waiting_count() < count) std::this_thread::yield();
}

TEST(BufferPoolTest, leases_are_aligned_disjoint_and_inside_the_budget) {
  BufferPool pool = small_pool();
  std::vector<Lease> leases;
  std::size_t total = 0;
  for (;;) {
    Result<Lease> lease = pool.try_lease(100'000);
    if (!lease.ok()) {
      EXPECT_EQ(lease.status().code(), Code::unavailable);
      break;
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(lease->bytes().data()) % BufferPool::kAlignBytes,
              0U);
    EXPECT_GE(lease->bytes().size(), 100'000U);
    std::memset(lease->bytes().data(), static_cast<int>(leases.size()), lease->bytes().size());
    total += lease->bytes().size();
    leases.push_back(*std::move(lease));
  }
  EXPECT_LE(total, pool.budget_bytes());
  EXPECT_EQ(pool.leased_bytes(), total);
  for (std::size_t i = 0; i < leases.size(); ++i)
    for (const std::byte byte : leases[i].bytes()) ASSERT_EQ(byte, static_cast<std::byte>(i));
  leases.clear();
  EXPECT_EQ(pool.leased_bytes(), 0U);
  EXPECT_EQ(pool.try_lease(pool.budget_bytes())->bytes().size(), pool.budget_bytes())
      << "holes were not merged";
}

TEST(BufferPoolTest, size_classes_lose_at_most_a_fifth) {
  std::size_t previous = 0;
  for (std::size_t size = 1; size < 64 * kMiB; size += 1 + size / 7) {
    const std::size_t taken = BufferPool::size_class_bytes(size);
    EXPECT_GE(taken, size);
    EXPECT_EQ(taken % BufferPool::kAlignBytes, 0U);
    EXPECT_GE(taken, previous) << "classes must not shrink";
    if (size > 4 * BufferPool::kAlignBytes) {
      EXPECT_LE(taken - size, taken / 5 + 1) << size;
    }
    EXPECT_EQ(BufferPool::size_class_bytes(taken), taken);
    previous = taken;
  }
}

TEST(BufferPoolTest, what_can_never_be_served_is_refused_at_once) {
  BufferPool pool = small_pool();
  EXPECT_EQ(pool.lease(pool.budget_bytes() + 1).status().code(), Code::invalid_argument);
  EXPECT_EQ(BufferPool::make({.budget_bytes = 0}).status().code(), Code::invalid_argument);
  EXPECT_TRUE(pool.lease(pool.budget_bytes()).ok());
  EXPECT_TRUE(pool.lease(0).ok());
}

TEST(BufferPoolTest, a_lease_outlives_its_pool) {
  std::optional<BufferPool> pool = small_pool();
  Lease lease = *pool->lease(kMiB);
  pool.reset();
  std::memset(lease.bytes().data(), 1, lease.bytes().size());
}

TEST(BufferPoolTest, waiting_callers_are_served_in_the_order_they_came) {
  BufferPool pool = small_pool(4 * kMiB);
  std::deque<Lease> held;
  for (int i = 0; i < 4; ++i) held.push_back(*pool.lease(kMiB));
  std::vector<int> served;  // guarded by being written in turn: each holds its lease until the end
  std::atomic<int> done{0};
  std::vector<std::jthread> threads;
  // The first wants much, the second little: the second must not overtake.
  for (const auto& [number, size] : {std::pair{1, 2 * kMiB}, {2, kMiB / 2}}) {
    threads.emplace_back([&, n = number, bytes = size] {
      const Result<Lease> lease = pool.lease(bytes);
      EXPECT_TRUE(lease.ok());
      const int turn = done++;
      EXPECT_EQ(turn, n - 1) << "a small request overtook a large one";
      while (done < 2) std::this_thread::yield();
    });
    wait_for_waiters(pool, static_cast<std::size_t>(number));
  }
  held.pop_front();  // 1 MiB free: enough for the second, not for the first
  EXPECT_EQ(pool.waiting_count(), 2U);
  EXPECT_EQ(pool.try_lease(4096).status().code(), Code::unavailable) << "nobody jumps the queue";
  held.pop_front();  // 2 MiB: the first is served
  while (done < 1) std::this_thread::yield();
  held.pop_front();  // and now the second
}

TEST(BufferPoolTest, a_stop_request_ends_the_wait_and_lets_those_behind_pass) {
  BufferPool pool = small_pool(4 * kMiB);
  Lease held = *pool.lease(3 * kMiB);
  std::stop_source stop;
  std::jthread first(
      [&] { EXPECT_EQ(pool.lease(2 * kMiB, stop.get_token()).status().code(), Code::cancelled); });
  wait_for_waiters(pool, 1);
  std::jthread second([&] { EXPECT_TRUE(pool.lease(kMiB / 2).ok()); });
  wait_for_waiters(pool, 2);
  stop.request_stop();
}

TEST(BufferPoolTest, a_deadline_ends_the_wait) {
  BufferPool pool = small_pool(4 * kMiB);
  const Lease held = *pool.lease(4 * kMiB);
  EXPECT_EQ(pool.lease(1, {}, Clock::now()).status().code(), Code::unavailable);
  EXPECT_EQ(pool.waiting_count(), 0U);
}

TEST(BufferPoolTest, many_threads_share_it_without_losing_a_byte) {
  BufferPool pool = small_pool(8 * kMiB);
  std::vector<std::jthread> threads;
  for (unsigned n = 0; n < 4; ++n) {
    threads.emplace_back([&pool, n] {
      std::mt19937 random(n);
      for (int i = 0; i < 300; ++i) {
        const Result<Lease> lease = pool.lease(1 + random() % (3 * kMiB));
        ASSERT_TRUE(lease.ok());
        std::byte& first = lease->bytes().front();
        first = static_cast<std::byte>(n);
        std::this_thread::yield();
        ASSERT_EQ(first, static_cast<std::byte>(n));
      }
    });
  }
  threads.clear();
  EXPECT_EQ(pool.leased_bytes(), 0U);
  EXPECT_TRUE(pool.try_lease(8 * kMiB).ok());
}

#if !defined(NDEBUG) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(BufferPoolDeathTest, writing_after_giving_back_is_caught) {
  EXPECT_DEATH(
      {
        BufferPool pool = small_pool(2 * kMiB);
        Lease lease = *pool.lease(kMiB);
        std::byte* late = lease.bytes().data();
        lease = Lease();
        *late = std::byte{1};
        static_cast<void>(pool.lease(2 * kMiB));
      },
      "after it had been given back");
}
#endif

#if defined(__SANITIZE_ADDRESS__)
TEST(BufferPoolDeathTest, writing_after_giving_back_is_caught_by_the_sanitizer) {
  EXPECT_DEATH(
      {
        BufferPool pool = small_pool(2 * kMiB);
        Lease lease = *pool.lease(kMiB);
        std::byte* late = lease.bytes().data();
        lease = Lease();
        *late = std::byte{1};
      },
      "use-after-poison");
}
#endif

TEST(ArenaTest, says_what_backs_it_and_is_zero) {
  for (const bool huge : {false, true}) {
    const Result<MappedArena> arena = MappedArena::map(8 * kMiB, huge, true);
    ASSERT_TRUE(arena.ok());
    if (!huge) {
      EXPECT_EQ(arena->pages(), ArenaPages::small);
    }
    EXPECT_EQ(arena->bytes().size(), 8 * kMiB);
    EXPECT_TRUE(std::ranges::all_of(arena->bytes(), [](std::byte b) { return b == std::byte{0}; }));
  }
  EXPECT_EQ(MappedArena::map(std::size_t{1} << 62, false, false).status().code(),
            Code::unavailable);
}

TEST(FreeExtentsTest, random_takes_and_returns_never_overlap_and_end_whole) {
  constexpr std::size_t kUnits = 1000;
  FreeExtents free(kUnits, 1);
  std::vector<bool> used(kUnits);
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    if (taken.empty() || random() % 2 == 0) {
      const std::size_t size = 1 + random() % 50;
      const std::size_t at = free.take(size);
      if (at == FreeExtents::kNone) continue;
      ASSERT_LE(at + size, kUnits);
      for (std::size_t u = at; u < at + size; ++u) {
        ASSERT_FALSE(used[u]);
        used[u] = true;
      }
      taken.emplace_back(at, size);
    } else {
      const std::size_t pick = random() % taken.size();
      const auto [at, size] = taken[pick];
      taken.erase(taken.begin() + static_cast<std::ptrdiff_t>(pick));
      for (std::size_t u = at; u < at + size; ++u) used[u] = false;
      free.give_back(at, size);
    }
  }
  for (const auto& [at, size] : taken) free.give_back(at, size);
  EXPECT_EQ(free.take(kUnits), 0U) << "the holes were not merged into one";
}

}  // namespace
}  // namespace stoker
