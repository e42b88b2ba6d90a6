// Ranks that make different calls, and synchronize again.
#include "checkpoint/save/save_rounds.h"

#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/opened.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using Agreed = SaveRounds::Agreed;
using Answers = std::vector<Result<Agreed>>;

/// As if rank 0 had read the message just before it was to be taken back.
class ReadBefore final : public Coordinator {
 public:
  explicit ReadBefore(Coordinator& target) : target_(target) {}
  std::uint32_t rank() const noexcept override { return target_.rank(); }
  std::uint32_t world_size() const noexcept override { return target_.world_size(); }
  Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                          Deadline deadline) override {
    return target_.gather(key, text, deadline);
  }
  void withdraw(const std::string& key) override {
    if (is_over) target_.withdraw(key);
  }
  Result<std::string> broadcast(const std::string& key, const std::string& text,
                                Deadline deadline) override {
    return target_.broadcast(key, text, deadline);
  }
  bool is_over = false;

 private:
  Coordinator& target_;
};

class SaveRoundsTest : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  void SetUp() override {
    for (std::uint32_t rank = 0; rank < GetParam(); ++rank) {
      auto made = make_shared_directory_coordinator({.place = testing::opened(dir_.path()),
                                                     .word = "job",
                                                     .session = "1",
                                                     .rank = rank,
                                                     .world_size = GetParam()});
      ASSERT_TRUE(made.ok());
      coordinators_.push_back(*std::move(made));
      ranks_.push_back(std::make_unique<SaveRounds>(*coordinators_.back()));
    }
  }

  /// Ends a test that would otherwise hang; no result depends on it.
  static Deadline in_the_end() { return deadline_after(std::chrono::seconds(60)); }
  /// Of a call that nobody answers.
  static Deadline at_once() { return Clock::now(); }

  Result<Agreed> call(std::uint32_t rank, std::uint64_t step, Deadline deadline = in_the_end()) {
    const BeginMessage own{.step = step};
    if (rank > 0) return ranks_[rank]->follow(own, deadline);
    return ranks_[0]->lead(
        own,
        [&](std::uint64_t number, std::span<const BeginMessage> messages) {
          for (const BeginMessage& message : messages) EXPECT_EQ(message.step, step);
          return Verdict{.staging = std::to_string(number)};
        },
        deadline);
  }
  /// Calls of the ranks at the same time.
  Answers call_all(const std::map<std::uint32_t, std::uint64_t>& steps) {
    std::vector<std::optional<Result<Agreed>>> answers(GetParam());
    {
      std::vector<std::jthread> threads;
      for (const auto& [rank, step] : steps)
        threads.emplace_back([&, rank, step] { answers[rank] = call(rank, step); });
    }
    Answers out;
    for (auto& answer : answers)
      if (answer) out.push_back(*std::move(answer));
    return out;
  }
  std::map<std::uint32_t, std::uint64_t> everywhere(std::uint64_t step) const {
    std::map<std::uint32_t, std::uint64_t> steps;
    for (std::uint32_t rank = 0; rank < GetParam(); ++rank) steps[rank] = step;
    return steps;
  }
  static void expect_go(const Answers& answers) {
    for (const Result<Agreed>& answer : answers) {
      ASSERT_TRUE(answer.ok()) << answer.status().message();
      EXPECT_EQ(answer->verdict.action, SaveAction::go) << answer->verdict.failure.message();
      EXPECT_EQ(answer->number, answers.front()->number);
      EXPECT_EQ(answer->verdict.staging, std::to_string(answer->number));
    }
  }
  static void expect_failed(const Result<Agreed>& answer, const std::string& text) {
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    EXPECT_TRUE(answer->verdict.action == SaveAction::fail ||
                answer->verdict.action == SaveAction::fail_behind);
    EXPECT_NE(answer->verdict.failure.message().find(text), std::string_view::npos)
        << answer->verdict.failure.message();
  }
  /// All ranks make the same calls again.
  void expect_in_step() {
    for (const std::uint64_t step : {1000U, 1001U, 1002U}) expect_go(call_all(everywhere(step)));
  }
  std::uint32_t last() const { return GetParam() - 1; }

  const testing::TempDir dir_;
  std::vector<std::unique_ptr<Coordinator>> coordinators_;
  std::vector<std::unique_ptr<SaveRounds>> ranks_;
};

TEST_P(SaveRoundsTest, a_call_that_rank_0_makes_alone_fails_alone) {
  expect_go(call_all(everywhere(1)));
  for (const std::uint64_t step : {25U, 26U})
    expect_failed(call(0, step, at_once()), "rank " + std::string(GetParam() == 2 ? "1 " : ""));
  expect_in_step();
}

TEST_P(SaveRoundsTest, a_call_that_another_rank_makes_alone_fails_alone) {
  expect_go(call_all(everywhere(1)));
  for (const std::uint64_t step : {25U, 26U}) {
    const Result<Agreed> alone = call(last(), step, at_once());
    EXPECT_NE(alone.status().message().find("rank 0 did not answer in time"),
              std::string_view::npos);
  }
  expect_in_step();
}

TEST_P(SaveRoundsTest, a_call_that_all_but_one_make_fails_for_them_and_no_other) {
  expect_go(call_all(everywhere(1)));
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t rank = 1; rank < last(); ++rank)
      threads.emplace_back(
          [this, rank] { expect_failed(call(rank, 25), "did not answer in time"); });
    expect_failed(call(0, 25, deadline_after(std::chrono::milliseconds(50))),
                  "did not answer in time");
  }
  expect_in_step();
}

TEST_P(SaveRoundsTest, a_rank_that_comes_too_late_fails_at_once_with_the_cause) {
  expect_failed(call(0, 25, at_once()), "did not answer in time");
  for (std::uint32_t rank = 1; rank < GetParam(); ++rank)
    expect_failed(call(rank, 25), "did not answer in time");
  expect_in_step();
}

TEST_P(SaveRoundsTest, a_call_that_was_given_up_is_never_taken_for_a_later_one) {
  ReadBefore slow(*coordinators_[last()]);
  ranks_[last()] = std::make_unique<SaveRounds>(slow);
  EXPECT_FALSE(call(last(), 25, at_once()).ok());
  slow.is_over = true;
  auto others = everywhere(25);
  others.erase(last());
  const Answers first = call_all(others);  // hear the call that was given up
  expect_go(first);
  // The same step once more: the verdict is there, and is not for this call.
  const Answers second = call_all(everywhere(25));
  expect_go(second);
  EXPECT_EQ(second.front()->number, first.front()->number + 1);
  // The save that rank 0 had begun is told so, and does not wait for its deadline.
  std::jthread middle([this, &first] {
    for (std::uint32_t rank = 1; rank < last(); ++rank)
      static_cast<void>(coordinators_[rank]->gather("part-" + std::to_string(first.front()->number),
                                                    format_message(PartMessage()), in_the_end()));
  });
  const auto parts = coordinators_[0]->gather("part-" + std::to_string(first.front()->number),
                                              format_message(PartMessage()), in_the_end());
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  const Result<PartMessage> part = parse_part_message(parts->back());
  ASSERT_TRUE(part.ok());
  EXPECT_NE(part->failure.message().find("gave up the save"), std::string_view::npos);
  expect_in_step();
}

// A rank makes a call too many, and all the others are at a later step when they hear of it.
TEST_P(SaveRoundsTest, a_rank_that_is_behind_fails_alone_until_it_has_caught_up) {
  for (const std::uint32_t behind : {last(), 0U}) {
    const std::uint64_t base = behind == 0 ? 100 : 200;
    auto steps = everywhere(base + 30);
    steps[behind] = base + 25;
    for (const Result<Agreed>& answer : call_all(steps))
      expect_failed(answer, "saves step " + std::to_string(base + 25));
    std::vector<std::jthread> others;
    for (std::uint32_t rank = 0; rank < GetParam(); ++rank)
      if (rank != behind)
        others.emplace_back([this, rank, base] { expect_go({call(rank, base + 35)}); });
    expect_failed(call(behind, base + 30), "saves step " + std::to_string(base + 30));
    expect_go({call(behind, base + 35)});
  }
  expect_in_step();
}

TEST_P(SaveRoundsTest, a_step_that_has_failed_can_be_saved_by_all) {
  auto steps = everywhere(5);
  steps[last()] = 6;
  for (const Result<Agreed>& answer : call_all(steps)) expect_failed(answer, "saves step 6");
  expect_go(call_all(everywhere(6)));
  for (const Result<Agreed>& answer : call_all(steps)) expect_failed(answer, "saves step 6");
  expect_go(call_all(everywhere(1)));
  expect_go(call_all(everywhere(6)));
}

INSTANTIATE_TEST_SUITE_P(Ranks, SaveRoundsTest, ::testing::Values(2U, 3U),
                         [](const auto& named) { return std::to_string(named.param); });

}  // namespace
}  // namespace stoker
