#include "io/range_reader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <set>
#include <vector>

namespace stoker {
namespace {

/// A source that is no engine: one object in memory. What was asked for last comes first, so that
/// nobody relies on an order.
class MemorySource final : public RangeSource {
 public:
  struct Faults {
    std::size_t fail_after = SIZE_MAX;  // requests that succeed; the next fails with EIO
    bool breaks = false;                // reap() itself fails
    std::size_t accepted_max = SIZE_MAX;
  };

  MemorySource(std::span<const std::byte> object, std::uint32_t depth, Faults faults,
               std::size_t& in_flight_max)
      : object_(object), depth_(depth), faults_(faults), in_flight_max_(in_flight_max) {}

  std::uint32_t depth_max() const noexcept override { return depth_; }

  Result<std::size_t> submit(std::span<const Request> requests) override {
    const std::size_t count =
        std::min({requests.size(), depth_ - waiting_.size(), faults_.accepted_max});
    const std::span<const Request> taken = requests.first(count);
    waiting_.insert(waiting_.end(), taken.begin(), taken.end());
    in_flight_max_ = std::max(in_flight_max_, waiting_.size());
    return count;
  }

  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds /*timeout*/) override {
    if (faults_.breaks) return Status(Code::io_error, "the source is broken");
    std::size_t count = 0;
    for (; count < std::max<std::size_t>(count_min, 1) && count < out.size() && !waiting_.empty();
         ++count) {
      out[count] = {.tag = waiting_.back().tag, .result = perform(waiting_.back())};
      waiting_.pop_back();
    }
    return count;
  }

  std::size_t in_flight() const noexcept override { return waiting_.size(); }
  Status cancel(std::uint64_t /*tag*/) override { return {}; }

 private:
  std::int64_t perform(const Request& request) {
    if (done_++ >= faults_.fail_after) return -EIO;
    if (request.offset_bytes >= object_.size()) return 0;
    const std::size_t size = std::min(request.buffer.size(), object_.size() - request.offset_bytes);
    std::memcpy(request.buffer.data(), object_.data() + request.offset_bytes, size);
    return static_cast<std::int64_t>(size);
  }

  const std::span<const std::byte> object_;
  const std::uint32_t depth_;
  const Faults faults_;
  std::size_t& in_flight_max_;
  std::deque<Request> waiting_;
  std::size_t done_ = 0;
};

/// Ranges of one size, one after the other.
class Ranges final : public RangeFeed {
 public:
  Ranges(std::size_t count, std::size_t size) : bytes(count * size), count_(count), size_(size) {}

  Next next(ReadPlan& plan) override {
    if (next_ == count_) return Next::end;
    if (in_use.size() >= memory_for) return Next::later;
    const std::span<std::byte> room = std::span(bytes).subspan(next_ * size_, size_);
    plan = {.request = {.offset_bytes = next_ * size_, .buffer = room, .tag = next_},
            .size_bytes = size_};
    in_use.insert(next_++);
    return Next::range;
  }

  Status came(const ReadPlan& plan, const Result<std::span<std::byte>>& result) override {
    EXPECT_EQ(in_use.erase(plan.request.tag), 1U);
    if (result.ok()) {
      EXPECT_EQ(result->size(), size_);
    }
    (result.ok() ? came_count : failed_count) += 1;
    return plan.request.tag == ends_at ? Status(Code::corrupt, "the feed has seen enough")
                                       : Status();
  }
  void dropped(const ReadPlan& plan) override {
    EXPECT_EQ(in_use.erase(plan.request.tag), 1U);
    ++dropped_count;
  }
  Result<bool> work_meanwhile() override {
    if (work_left > 0) --work_left;
    return work_left > 0;
  }

  std::vector<std::byte> bytes;
  std::size_t memory_for = SIZE_MAX;  // ranges at a time
  std::size_t work_left = 0;
  std::uint64_t ends_at = UINT64_MAX;
  std::set<std::uint64_t> in_use;
  std::size_t came_count = 0, failed_count = 0, dropped_count = 0;

 private:
  const std::size_t count_;
  const std::size_t size_;
  std::size_t next_ = 0;
};

class RangeReaderTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 10;
  static constexpr std::size_t kSize = 10'000;

  RangeReaderTest() : object_(kCount * kSize) {
    for (std::size_t i = 0; i < object_.size(); ++i) object_[i] = std::byte(i % 251);
  }

  RangeReader reader(std::uint32_t depth, MemorySource::Faults faults = {}) {
    return RangeReader(std::make_unique<MemorySource>(object_, depth, faults, in_flight_max_));
  }

  std::vector<std::byte> object_;
  std::size_t in_flight_max_ = 0;
};

TEST_F(RangeReaderTest, reads_every_range_with_a_full_queue) {
  for (const std::uint32_t depth : {1U, 3U, 64U}) {
    Ranges ranges(kCount, kSize);
    RangeReader reading = reader(depth);
    ASSERT_TRUE(reading.read(ranges, {}).ok());
    EXPECT_EQ(ranges.bytes, object_);
    EXPECT_EQ(ranges.came_count, kCount);
    EXPECT_EQ(in_flight_max_, std::min<std::size_t>(depth, kCount)) << depth;
    in_flight_max_ = 0;
  }
}

TEST_F(RangeReaderTest, long_ranges_are_cut_and_put_together) {
  for (const std::size_t piece : {1024U, 4096U, 9'999U, 10'000U, 20'000U}) {
    for (const std::uint32_t depth : {1U, 2U, 7U}) {
      Ranges ranges(kCount, kSize);
      ASSERT_TRUE(reader(depth).read(ranges, {.piece_bytes = piece}).ok());
      EXPECT_EQ(ranges.bytes, object_) << piece << " " << depth;
      EXPECT_EQ(ranges.came_count, kCount);
    }
  }
}

TEST_F(RangeReaderTest, a_source_that_takes_less_than_it_has_room_for_gets_the_rest_later) {
  Ranges ranges(kCount, kSize);
  ASSERT_TRUE(reader(8, {.accepted_max = 1}).read(ranges, {.piece_bytes = 4096}).ok());
  EXPECT_EQ(ranges.bytes, object_);
}

TEST_F(RangeReaderTest, a_feed_that_lacks_memory_is_asked_again_when_some_is_free) {
  Ranges ranges(kCount, kSize);
  ranges.memory_for = 2;
  ASSERT_TRUE(reader(8).read(ranges, {}).ok());
  EXPECT_EQ(ranges.bytes, object_);
  EXPECT_EQ(in_flight_max_, 2U);
}

TEST_F(RangeReaderTest, work_that_is_left_is_done_after_the_last_range) {
  Ranges ranges(1, kSize);
  ranges.work_left = 100;
  ASSERT_TRUE(reader(8).read(ranges, {}).ok());
  EXPECT_EQ(ranges.work_left, 0U);
  EXPECT_EQ(ranges.came_count, 1U);
}

TEST_F(RangeReaderTest, an_error_of_one_piece_is_that_of_its_range) {
  Ranges ranges(kCount, kSize);
  ASSERT_TRUE(reader(4, {.fail_after = 29}).read(ranges, {.piece_bytes = 4096}).ok());
  EXPECT_EQ(ranges.came_count, kCount - 1);
  EXPECT_EQ(ranges.failed_count, 1U);
}

TEST_F(RangeReaderTest, an_object_that_is_too_short_fails_the_ranges_past_its_end) {
  object_.resize(object_.size() - kSize / 2);
  Ranges ranges(kCount, kSize);
  ASSERT_TRUE(reader(4).read(ranges, {.piece_bytes = 4096}).ok());
  EXPECT_EQ(ranges.came_count, kCount - 1);
  EXPECT_EQ(ranges.failed_count, 1U);
}

TEST_F(RangeReaderTest, what_the_feed_or_the_check_refuses_ends_it_and_drops_the_rest) {
  Ranges refused(kCount, kSize);
  refused.ends_at = 1;
  RangeReader reading = reader(4);
  EXPECT_EQ(reading.read(refused, {.piece_bytes = 4096}).code(), Code::corrupt);
  EXPECT_TRUE(refused.in_use.empty());
  EXPECT_GT(refused.dropped_count, 0U);

  Ranges stopped(kCount, kSize);
  int checks = 0;
  const auto check = [&checks] {
    return ++checks > 3 ? Status(Code::cancelled, "stopped") : Status();
  };
  EXPECT_EQ(reading.read(stopped, {.check = check}).code(), Code::cancelled);
  EXPECT_TRUE(stopped.in_use.empty());

  Ranges whole(kCount, kSize);  // the same reader continues
  ASSERT_TRUE(reading.is_usable());
  ASSERT_TRUE(reading.read(whole, {}).ok());
  EXPECT_EQ(whole.bytes, object_);
}

TEST_F(RangeReaderTest, a_broken_source_is_given_up_and_every_range_is_dropped) {
  Ranges ranges(kCount, kSize);
  RangeReader reading = reader(4, {.breaks = true});
  EXPECT_EQ(reading.read(ranges, {}).code(), Code::io_error);
  EXPECT_FALSE(reading.is_usable());
  EXPECT_TRUE(ranges.in_use.empty());
  EXPECT_EQ(ranges.dropped_count, 4U);
}

}  // namespace
}  // namespace stoker
