#include "gpu/cuda_feed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/fake_driver.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{2} << 20;
constexpr std::size_t kBatchBytes = 8192;

class CudaFeedTest : public ::testing::Test {
 protected:
  void SetUp() override { make_feed(); }

  void make_feed() {
    auto device = CudaDevice::retain(fake_.table(), 0);
    ASSERT_TRUE(device.ok());
    auto feed = CudaFeed::make(*std::move(device), ours_);
    ASSERT_TRUE(feed.ok());
    feed_ = *std::move(feed);
    auto arena = feed_->memory()(kArenaBytes);
    ASSERT_TRUE(arena.ok());
    pool_ = BufferPool::make(*std::move(arena));
  }

  /// A batch whose bytes all have this value.
  Lease batch_of(int value) {
    Result<Lease> lease = pool_->lease(kBatchBytes);
    EXPECT_TRUE(lease.ok());
    std::ranges::fill(lease->bytes(), static_cast<std::byte>(value));
    return *std::move(lease);
  }
  CudaPointer room() { return fake_.upload(std::vector<std::byte>(kBatchBytes)); }
  Result<std::shared_ptr<const CudaFeed::Copy>> send(Lease batch, CudaPointer to) {
    const std::span<const std::byte> bytes = batch.bytes();
    const CudaFeed::Piece piece{.to = to, .from = bytes};
    return feed_->send({&piece, 1}, std::move(batch));
  }
  /// Whether the consumer waits for it.
  bool delay(const CudaFeed::Copy& copy) const {
    try {
      return copy.delay(consumer_).ok();
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  static bool has(CudaPointer at, int value) {
    const std::span bytes(FakeDriver::memory_at(at), kBatchBytes);
    return std::ranges::all_of(bytes,
                               [&](std::byte one) { return one == static_cast<std::byte>(value); });
  }

  FakeDriver fake_;
  const CudaStream ours_ = fake_.make_stream(0);
  const CudaStream consumer_ = fake_.make_stream(0);
  std::unique_ptr<CudaFeed> feed_;
  std::optional<BufferPool> pool_;
};

TEST_F(CudaFeedTest, a_consumer_waits_for_its_batch_and_the_host_does_not) {
  const CudaPointer to = room();
  const CudaPointer seen = room();
  fake_.hold(0, ours_);
  const auto copy = send(batch_of(7), to);  // returns, though nothing is copied yet
  ASSERT_TRUE(copy.ok());
  ASSERT_TRUE((*copy)->delay(consumer_).ok());
  auto device = CudaDevice::retain(fake_.table(), 0);
  {
    const CudaScope scope(**device);
    ASSERT_EQ(fake_.table().memcpy_dtod_async(seen, to, kBatchBytes, consumer_), kCudaSuccess);
  }
  EXPECT_TRUE(has(seen, 0));
  fake_.release();
  fake_.finish(0, consumer_);
  EXPECT_TRUE(has(seen, 7));
}

TEST_F(CudaFeedTest, host_memory_is_leased_until_its_copy_has_ended) {
  fake_.hold(0, ours_);
  const CudaPointer to = room();
  ASSERT_TRUE(send(batch_of(3), to).ok());
  EXPECT_EQ(pool_->leased_bytes(), kBatchBytes);
  fake_.release();
  Result<Lease> all = pool_->lease(kArenaBytes);  // waits for the thread to end the lease
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(has(to, 3));
}

TEST_F(CudaFeedTest, memory_is_pinned_once_and_other_memory_is_copied_before_the_call_returns) {
  const CudaPointer to = room();
  const CudaPointer small = room();
  for (int round = 1; round <= 3; ++round) {
    Lease batch = batch_of(round);
    auto heap = std::make_unique<std::vector<std::byte>>(100, static_cast<std::byte>(round));
    const std::vector<CudaFeed::Piece> pieces = {
        {.to = to, .from = batch.bytes()}, {.to = small, .from = *heap}, {.to = small, .from = {}}};
    ASSERT_TRUE(feed_->send(pieces, std::move(batch)).ok());
    std::ranges::fill(*heap, std::byte{0xEE});
    heap = nullptr;
    fake_.finish(0, ours_);
    EXPECT_TRUE(has(to, round));
    EXPECT_EQ(*FakeDriver::memory_at(small), static_cast<std::byte>(round));
  }
  EXPECT_EQ(fake_.registration_count(), 1U);
  EXPECT_EQ(fake_.unregistered_copies(), 3U);  // the small ones
  EXPECT_TRUE(feed_->memory_failure().ok());
}

TEST_F(CudaFeedTest, memory_that_cannot_be_pinned_is_copied_all_the_same) {
  fake_.refuse_registration(true);
  const CudaPointer to = room();
  ASSERT_TRUE(send(batch_of(9), to).ok());
  fake_.finish(0, ours_);
  EXPECT_TRUE(has(to, 9));
  EXPECT_FALSE(feed_->memory_failure().ok());
}

TEST_F(CudaFeedTest, an_early_end_waits_for_the_copies_and_frees_everything) {
  const CudaPointer to = room();
  fake_.hold(0, ours_);
  auto copy = send(batch_of(5), to);
  ASSERT_TRUE(copy.ok());
  fake_.release();
  feed_ = nullptr;
  EXPECT_TRUE(has(to, 5));
  EXPECT_EQ(pool_->leased_bytes(), 0U);
  EXPECT_TRUE((*copy)->delay(consumer_).ok());  // it may outlive the feed
  copy = Status(Code::cancelled, "");
  pool_.reset();
  EXPECT_EQ(fake_.registered_count(), 0U);
  EXPECT_EQ(fake_.retained_count(), 0);
}

TEST_F(CudaFeedTest, it_counts_what_has_arrived) {
  const CudaPointer to = room();
  ASSERT_TRUE(send(batch_of(1), to).ok());
  ASSERT_TRUE(send(batch_of(2), to).ok());
  ASSERT_TRUE(pool_->lease(kArenaBytes).ok());
  EXPECT_EQ(feed_->stats().copies, 2U);
  EXPECT_EQ(feed_->stats().bytes, 2 * kBatchBytes);
  EXPECT_GT(feed_->stats().busy.count(), 0);
}

/// Whatever call fails, in whatever way: either a batch has arrived, or a call has failed.
TEST_F(CudaFeedTest, each_call_of_the_driver_failed_in_turn_hands_over_no_wrong_bytes) {
  using Fault = FakeDriver::Fault;
  for (const Fault fault : {Fault::once, Fault::sticky, Fault::later, Fault::no_memory}) {
    for (std::size_t number = 0;; ++number) {
      ASSERT_LT(number, 1000U);
      make_feed();
      fake_.fail_call(number, fault);
      bool has_failed = false;
      for (int round = 1; round <= 3 && !has_failed; ++round) {
        const CudaPointer to = room();
        const auto copy = send(batch_of(round), to);
        has_failed = !copy.ok() || !delay(**copy);
        if (has_failed) break;
        fake_.finish(0, consumer_);
        // Work that is lost is only seen by a later call, as with the real driver.
        if (fault != Fault::no_memory) has_failed = !CudaDevice::retain(fake_.table(), 0).ok();
        EXPECT_TRUE(has_failed || has(to, round)) << number;
      }
      const bool was_reached = fake_.calls().size() > number;
      feed_ = nullptr;
      pool_.reset();
      fake_.heal();
      if (!was_reached) break;
    }
  }
}

TEST_F(CudaFeedTest, after_a_failure_memory_is_not_used_again_and_every_call_fails) {
  Lease refused = batch_of(6);
  fake_.fail_call(0, FakeDriver::Fault::sticky);
  ASSERT_FALSE(send(batch_of(5), room()).ok());
  EXPECT_FALSE(feed_->failure().ok());
  fake_.heal();
  ASSERT_FALSE(send(std::move(refused), room()).ok());  // nothing was begun: its memory is free
  feed_ = nullptr;
  EXPECT_EQ(pool_->leased_bytes(), kBatchBytes);
}

TEST_F(CudaFeedTest, without_memory_in_the_middle_of_a_batch_its_lease_ends_after_its_copies) {
  const CudaPointer to = room();
  Lease batch = batch_of(4);
  const CudaFeed::Piece piece{.to = to, .from = batch.bytes()};
  fake_.hold(0, ours_);
  fake_.fail_next("event_record", FakeDriver::Fault::no_memory);
  {
    const std::jthread releasing([&] {
      while (fake_.count_of("stream_synchronize") == 0) std::this_thread::yield();
      EXPECT_EQ(pool_->leased_bytes(), kBatchBytes);
      fake_.release();
    });
    EXPECT_EQ(feed_->send({&piece, 1}, std::move(batch)).status().os_error(), ENOMEM);
  }
  EXPECT_TRUE(has(to, 4));
  EXPECT_EQ(pool_->leased_bytes(), 0U);
  EXPECT_FALSE(send(batch_of(2), to).ok());  // the batch is lost: none may take its place
}

}  // namespace
}  // namespace stoker::testing
