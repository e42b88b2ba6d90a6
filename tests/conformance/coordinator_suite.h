#pragma once

// What every Coordinator, and the place for its messages, must do. An implementation is done when
// it passes this suite:
//
//   INSTANTIATE_TEST_SUITE_P(mine, CoordinatorSuite,
//                            ::testing::Values(MessagesMaker{"mine", make_mine}), messages_name);

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/save_support.h"

namespace stoker::testing {

/// What the ranks of one session share.
class SharedMessages {
 public:
  virtual ~SharedMessages() = default;
  /// Returns the coordinator of one rank; the options have its rank and world size.
  virtual std::shared_ptr<Coordinator> join(const CoordinatorOptions& options) = 0;
  /// Returns how many messages there are, or entries that messages consist of.
  virtual std::size_t count() const = 0;
};

struct MessagesMaker {
  const char* name;
  std::unique_ptr<SharedMessages> (*make)();
};

inline std::string messages_name(const ::testing::TestParamInfo<MessagesMaker>& info) {
  return info.param.name;
}
inline std::ostream& operator<<(std::ostream& out, const MessagesMaker& maker) {
  return out << maker.name;
}

class CoordinatorSuite : public ::testing::TestWithParam<MessagesMaker> {
 protected:
  static constexpr std::uint32_t kRanks = 3;

  /// Ends a test that would otherwise hang; no result depends on it.
  static Deadline in_the_end() { return deadline_after(std::chrono::seconds(60)); }
  static Deadline soon() { return deadline_after(std::chrono::milliseconds(20)); }

  std::shared_ptr<Coordinator> join(std::uint32_t rank, std::uint32_t world_size = kRanks) {
    return messages_->join({.rank = rank, .world_size = world_size, .where = "/run"});
  }
  /// Runs `body` once for each rank, on threads of their own.
  template <typename Body>
  static void on_every_rank(Body&& body) {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&body, rank] { body(rank); });
  }

  const std::unique_ptr<SharedMessages> messages_ = GetParam().make();
};

TEST_P(CoordinatorSuite, messages_reach_everybody_in_the_order_of_ranks) {
  on_every_rank([&](std::uint32_t rank) {
    const auto coordinator = join(rank);
    for (int round = 0; round < 100; ++round) {
      const std::string key = "k-" + std::to_string(round);
      const auto texts = coordinator->gather("g" + key, key + std::to_string(rank), in_the_end());
      ASSERT_TRUE(texts.ok()) << texts.status().message();
      if (rank == 0) {
        EXPECT_EQ(*texts, (std::vector<std::string>{key + "0", key + "1", key + "2"}));
      }
      const auto heard = coordinator->broadcast("b" + key, rank == 0 ? key : "", in_the_end());
      ASSERT_TRUE(heard.ok()) << heard.status().message();
      EXPECT_EQ(*heard, key);
    }
  });
  EXPECT_LE(messages_->count(), 65U) << "old messages are removed as the run continues";
}

TEST_P(CoordinatorSuite, any_text_arrives_whole_and_nothing_stays_of_a_long_one) {
  std::vector<std::string> texts{"", "-", "=", "#x 1", std::string("\0\xff\n", 3)};
  std::string large(std::size_t{9} << 20, 'x');
  for (std::size_t i = 0; i < large.size(); i += 1000) large[i] = static_cast<char>(i >> 10U);
  texts.push_back(large);
  const auto leader = join(0, 2);
  const auto follower = join(1, 2);
  for (const std::string& text : texts) {
    const std::size_t before = messages_->count();
    ASSERT_TRUE(follower->gather("g", text, in_the_end()).ok());
    const auto heard = leader->gather("g", "own", in_the_end());
    ASSERT_TRUE(heard.ok()) << heard.status().message();
    EXPECT_TRUE((*heard)[1] == text) << text.size();
    while (messages_->count() > before) std::this_thread::yield();  // what was read is removed
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const std::string key = "b" + std::to_string(i);
    ASSERT_TRUE(leader->broadcast(key, texts[i], in_the_end()).ok());
    for (int time = 0; time < 2; ++time)
      EXPECT_TRUE(*follower->broadcast(key, "", in_the_end()) == texts[i]) << i;
  }
}

TEST_P(CoordinatorSuite, a_rank_that_says_nothing_is_named_by_the_deadline) {
  ASSERT_TRUE(join(1)->gather("k", "here", soon()).ok());
  const auto gathered = join(0)->gather("k", "here", soon());
  EXPECT_EQ(gathered.status().code(), Code::unavailable);
  EXPECT_NE(gathered.status().message().find("rank 2 did not answer in time in "),
            std::string_view::npos)
      << gathered.status().message();
  EXPECT_NE(gathered.status().message().find(kRankRule), std::string_view::npos);
  const auto heard = join(1)->broadcast("k", "", soon());
  EXPECT_NE(heard.status().message().find("rank 0 did not answer"), std::string_view::npos);
}

TEST_P(CoordinatorSuite, who_waits_is_told_for_whom) {
  ASSERT_TRUE(join(2)->gather("k", "here", soon()).ok());
  std::vector<std::string> told;
  const auto leader =
      messages_->join({.rank = 0,
                       .world_size = kRanks,
                       .where = "/run",
                       .on_wait = {.tell = [&](const std::string& text) { told.push_back(text); },
                                   .after = std::chrono::milliseconds(1)}});
  for (std::chrono::milliseconds time(100); told.empty(); time *= 2)
    EXPECT_FALSE(leader->gather("k", "", deadline_after(time)).ok());
  EXPECT_NE(told[0].find("rank 0 of 3 waits for rank 1 in "), std::string::npos) << told[0];
}

TEST_P(CoordinatorSuite, what_is_withdrawn_is_not_heard_and_the_key_is_free_again) {
  const auto leader = join(0, 2);
  const auto follower = join(1, 2);
  ASSERT_TRUE(follower->gather("k", "first", in_the_end()).ok());
  follower->withdraw("k");
  while (messages_->count() > 0) std::this_thread::yield();  // nobody waits for the removal
  EXPECT_EQ(leader->gather("k", "", soon()).status().code(), Code::unavailable);
  ASSERT_TRUE(follower->gather("k", "second", in_the_end()).ok());
  EXPECT_EQ(leader->gather("k", "", in_the_end())->at(1), "second");
  follower->withdraw("k");  // too late, and harmless
  while (messages_->count() > 0) std::this_thread::yield();
}

TEST_P(CoordinatorSuite, an_error_of_the_pause_ends_the_wait) {
  const auto follower = messages_->join({.rank = 1, .world_size = 2, .pause = [](nanoseconds time) {
                                           return time > nanoseconds(0)
                                                      ? Status(Code::cancelled, "interrupted")
                                                      : Status();
                                         }});
  EXPECT_EQ(follower->broadcast("k", "", Deadline::max()).status().code(), Code::cancelled);
}

TEST_P(CoordinatorSuite, a_rank_that_is_known_to_be_lost_ends_the_wait_after_a_last_look) {
  std::shared_ptr<Coordinator> lost = join(1);
  std::atomic<int> looks = 0;
  const auto leader = messages_->join(
      {.rank = 0, .world_size = kRanks, .find_loss = [&](std::uint32_t rank) {
         if (rank == 1 && ++looks == 2) {  // its last words, which count
           EXPECT_TRUE(lost->gather("k", "last words", in_the_end()).ok());
         }
         if (rank == 1 && looks < 2) return Status();
         return Status(Code::unavailable, "rank " + std::to_string(rank) + " has ended");
       }});
  const auto heard = leader->gather("k", "", Deadline::max());
  EXPECT_EQ(heard.status().message(), "rank 2 has ended");
}

TEST_P(CoordinatorSuite, many_threads_use_it_at_once) {
  std::vector<std::shared_ptr<Coordinator>> ranks;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) ranks.push_back(join(rank));
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 8; ++thread)
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      threads.emplace_back([&, thread, rank] {
        for (int round = 0; round < 10; ++round) {
          const std::string key = std::to_string(thread) + "-" + std::to_string(round);
          const auto texts = ranks[rank]->gather("g" + key, key, in_the_end());
          ASSERT_TRUE(texts.ok()) << texts.status().message();
          if (rank == 0) {
            EXPECT_EQ(*texts, std::vector<std::string>(kRanks, key));
          }
          EXPECT_EQ(*ranks[rank]->broadcast("b" + key, key, in_the_end()), key);
        }
      });
}

TEST_P(CoordinatorSuite, ranks_save_by_it) {
  const TempDir dir;
  on_every_rank([&](std::uint32_t rank) {
    SaverOptions options = quiet_options(dir.path());
    options.coordinator = join(rank);
    auto saver = CheckpointSaver::make(std::move(options));
    ASSERT_TRUE(saver.ok());
    const std::vector<OwnedTensor> tensors{
        counted("own." + std::to_string(rank), 2'000 + rank, static_cast<float>(rank))};
    for (const std::uint64_t step : {1U, 2U, 3U}) {
      const Result<PendingSave> pending = (*saver)->save(request_of(step, tensors));
      ASSERT_TRUE(pending.ok()) << pending.status().message();
      ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
      EXPECT_EQ(pending->generation(), step);
    }
    ASSERT_TRUE((*saver)->close().ok());
  });
  expect_whole(dir.file("step-000000000003"));
}

}  // namespace stoker::testing
