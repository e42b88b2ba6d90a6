// Ranges that are asked for twice because the first answer is late.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <future>
#include <vector>

#include "store/s3/s3_fixture.h"

namespace stoker::testing {
namespace {

using namespace std::chrono_literals;

/// Something that happens once, and that others wait for.
class Event {
 public:
  /// Also at the end, so that a test that fails does not hang.
  ~Event() { happen(); }
  void happen() {
    if (!has_happened_.exchange(true)) promise_.set_value();
  }
  std::function<void()> wait() const {
    return [future = future_] { future.wait(); };
  }

 private:
  std::promise<void> promise_;
  std::shared_future<void> future_ = promise_.get_future().share();
  std::atomic<bool> has_happened_{false};
};

class S3HedgeTest : public S3FaultTest {
 protected:
  /// Options for reads that have one attempt, and a hedge soon. Without it, a late answer would end
  /// the read.
  S3Options hedged(ChooseFault choose) {
    S3Options options = through(std::move(choose));
    options.http.hedge_after = 20ms;
    options.http.attempts_max = 1;
    options.http.timeout = 20s;
    return options;
  }
  static bool is_range(const ProxiedRequest& request) {
    return request.method == "GET" && request.head.find("Range:") != std::string::npos;
  }
  void put_text() { ASSERT_TRUE(put(*open_bucket(ceph_options()), key("a"), text_).ok()); }
  static std::int64_t reap_one(RangeSource& source) {
    std::array<Completion, 1> done;
    EXPECT_EQ(*source.reap(done, 1, 30s), 1U);
    return done[0].result;
  }

  const std::string text_ = pattern(300'000);
};

TEST_F(S3HedgeTest, a_late_answer_is_overtaken_and_never_arrives) {
  put_text();
  std::atomic<int> range_count{0};
  Event is_read;
  const auto store = open_bucket(hedged([&](const ProxiedRequest& request, std::size_t) {
    if (!is_range(request) || ++range_count > 1) return Fault{};
    return Fault{.kind = Kind::spoil_reply, .hold = is_read.wait()};
  }));
  const auto object = store->open(key("a"));
  ASSERT_TRUE(object.ok()) << object.status().message();
  const auto source = store->make_source(4);
  ASSERT_TRUE(source.ok());
  // In pieces: the bytes of the second answer have to find their places.
  std::string into(text_.size(), '-');
  const auto bytes = std::as_writable_bytes(std::span(into));
  const std::vector<std::span<std::byte>> pieces = {bytes.first(1), bytes.subspan(1, 4096),
                                                    bytes.subspan(4097)};
  Request request = request_of(**object, 0, bytes);
  request.pieces = pieces;
  ASSERT_EQ(*(*source)->submit({&request, 1}), 1U);
  EXPECT_EQ(reap_one(**source), static_cast<std::int64_t>(text_.size()));
  EXPECT_EQ(into, text_);
  EXPECT_EQ(range_count, 2);

  // The memory is the caller's again, while the source goes on and the first answer comes.
  into.assign(into.size(), '-');
  is_read.happen();
  std::string others(1000, '-');
  for (int i = 0; i < 20; ++i) {
    const auto next = request_of(**object, 1000, std::as_writable_bytes(std::span(others)));
    ASSERT_EQ(*(*source)->submit({&next, 1}), 1U);
    EXPECT_EQ(reap_one(**source), 1000);
  }
  EXPECT_EQ(others, text_.substr(1000, 1000));
  EXPECT_EQ(into, std::string(text_.size(), '-'));
}

TEST_F(S3HedgeTest, the_first_answer_counts_if_it_comes_first_after_all) {
  put_text();
  std::atomic<int> range_count{0};
  Event is_hedged;
  Event is_read;
  const auto store = open_bucket(hedged([&](const ProxiedRequest& request, std::size_t) {
    if (!is_range(request)) return Fault{};
    if (++range_count == 1) return Fault{.hold = is_hedged.wait()};
    is_hedged.happen();
    return Fault{.kind = Kind::spoil_reply, .hold = is_read.wait()};
  }));
  const auto read = get(*store, key("a"));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, text_);
  EXPECT_EQ(range_count, 2);
}

TEST_F(S3HedgeTest, a_second_request_that_fails_changes_nothing) {
  put_text();
  for (const Fault& fault :
       {Fault{.kind = Kind::answer, .status = 503}, Fault{.kind = Kind::answer, .status = 403},
        Fault{.kind = Kind::reset}, Fault{.kind = Kind::ignore_range},
        Fault{.kind = Kind::shift_range}, Fault{.kind = Kind::truncate}}) {
    std::atomic<int> range_count{0};
    Event is_answered;
    const auto store = open_bucket(hedged([&](const ProxiedRequest& request, std::size_t) {
      if (!is_range(request)) return Fault{};
      if (++range_count == 1) return Fault{.hold = is_answered.wait()};
      is_answered.happen();
      return fault;
    }));
    const auto read = get(*store, key("a"));
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(*read, text_);
  }
}

TEST_F(S3HedgeTest, a_server_that_is_slow_for_all_gets_five_more_requests_and_no_others) {
  put_text();
  constexpr int kReads = 25;  // and the hedges: no more than a store begins with
  constexpr int kHedges = 5;
  std::atomic<int> range_count{0};
  Event are_hedged;
  const auto store = open_bucket(hedged([&](const ProxiedRequest& request, std::size_t) {
    if (!is_range(request)) return Fault{};
    if (++range_count == kReads + kHedges) are_hedged.happen();
    return Fault{.hold = are_hedged.wait()};
  }));
  const auto object = store->open(key("a"));
  ASSERT_TRUE(object.ok()) << object.status().message();
  const auto source = store->make_source(kReads);
  ASSERT_TRUE(source.ok());
  std::string into(kReads * 1000, '-');
  for (std::size_t i = 0; i < kReads; ++i) {
    const auto place = std::span(into).subspan(i * 1000, 1000);
    const auto request = request_of(**object, i * 1000, std::as_writable_bytes(place));
    ASSERT_EQ(*(*source)->submit({&request, 1}), 1U);
  }
  for (int i = 0; i < kReads; ++i) EXPECT_EQ(reap_one(**source), 1000);
  EXPECT_EQ(into, text_.substr(0, into.size()));
  EXPECT_EQ(range_count, kReads + kHedges);
}

TEST_F(S3HedgeTest, without_the_option_nothing_is_asked_twice) {
  put_text();
  std::atomic<int> range_count{0};
  S3Options options = hedged([&](const ProxiedRequest& request, std::size_t) {
    range_count += is_range(request) ? 1 : 0;
    return Fault{.kind = is_range(request) ? Kind::stall : Kind::none};
  });
  options.http.hedge_after = 0ms;
  options.http.stall_timeout = 200ms;
  const auto store = open_bucket(options);
  EXPECT_EQ(get(*store, key("a")).status().code(), Code::unavailable);
  EXPECT_EQ(range_count, 1);
}

}  // namespace
}  // namespace stoker::testing
