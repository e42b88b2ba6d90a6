#include "checkpoint/restore/restore_agreement.h"

#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "checkpoint/ranks/message_json.h"
#include "checkpoint/save_support.h"

namespace stoker {
namespace {

using testing::counted;
using testing::make_saver;
using testing::opened;
using testing::quiet_options;
using testing::request_of;

constexpr std::uint32_t kRanks = 3;
using Outcome = RestoreAgreement::Outcome;

Result<StoreHandle> open_store(const std::string& path) {
  STOKER_ASSIGN(const CheckpointDirectory opened,
                CheckpointDirectory::open(posix_file_ops(), path));
  return StoreHandle(opened);
}

/// A directory with steps 1 to 3, and three ranks on threads of their own.
class RestoreAgreementTest : public ::testing::Test {
 protected:
  /// What a rank does: its name of the checkpoint, and how checking and reading end.
  struct Rank {
    std::string name = {};
    std::function<RestoreReport(std::uint64_t step)> check = [](std::uint64_t) {
      return RestoreReport();
    };
    std::function<RestoreReport(std::uint64_t step)> read = check;
    std::vector<std::uint64_t> checked = {};
    std::vector<std::uint64_t> read_steps = {};
  };

  void SetUp() override {
    const auto saver = make_saver(quiet_options(dir_.path()));
    for (std::uint64_t step = 1; step <= 3; ++step)
      ASSERT_TRUE(saver->save(request_of(step, {counted("w", 4, 1)})).ok());
    ASSERT_TRUE(saver->close().ok());
  }

  std::shared_ptr<Coordinator> coordinator(std::uint32_t rank,
                                           std::uint32_t world_size = kRanks) const {
    Result<std::unique_ptr<Coordinator>> made =
        make_shared_directory_coordinator({.place = opened(dir_.path()),
                                           .word = "job",
                                           .session = std::to_string(session_),
                                           .rank = rank,
                                           .world_size = world_size});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return std::shared_ptr<Coordinator>(*std::move(made));
  }

  std::vector<Outcome> restore(std::vector<Rank>& ranks) {
    ++session_;
    std::vector<Outcome> outcomes(kRanks);
    {
      std::vector<std::jthread> threads;
      for (std::uint32_t rank = 0; rank < kRanks; ++rank)
        threads.emplace_back([&, rank] { outcomes[rank] = restore_one(ranks[rank], rank); });
    }
    return outcomes;
  }
  Outcome restore_one(Rank& rank, std::uint32_t number) {
    const auto spoken = coordinator(number);
    RestoreAgreement agreement(*spoken, in_the_end());
    const RestoreTrial trial{.check =
                                 [&](const CheckpointReader& reader) {
                                   rank.checked.push_back(reader.manifest().step);
                                   return rank.check(reader.manifest().step);
                                 },
                             .read =
                                 [&](const CheckpointReader& reader) {
                                   rank.read_steps.push_back(reader.manifest().step);
                                   return rank.read(reader.manifest().step);
                                 }};
    const Result<Outcome> outcome = agreement.restore(request(rank.name), trial);
    EXPECT_TRUE(outcome.ok()) << outcome.status().message();
    EXPECT_TRUE(agreement.take_leave());
    return outcome.ok() ? *outcome : Outcome();
  }
  RankRequest request(const std::string& name) const {
    return {.path = dir_.path(), .open = [this] { return open_store(dir_.path()); }, .name = name};
  }
  /// Ends a test that would otherwise hang; no result depends on it.
  static Deadline in_the_end() { return deadline_after(std::chrono::seconds(60)); }

  static RestoreReport failed(Code code, const std::string& message, std::string detail = {}) {
    return {.status = Status(code, message), .detail = std::move(detail)};
  }

  const testing::TempDir dir_;
  std::uint64_t session_ = 0;
};

TEST_F(RestoreAgreementTest, all_ranks_read_the_newest) {
  std::vector<Rank> ranks(kRanks);
  for (const Outcome& outcome : restore(ranks)) {
    EXPECT_FALSE(outcome.failure.has_value());
    EXPECT_EQ(outcome.choice.name, step_name(3));
    EXPECT_TRUE(outcome.choice.passed_over.empty());
  }
  for (const Rank& rank : ranks) EXPECT_EQ(rank.read_steps, std::vector<std::uint64_t>{3});
}

TEST_F(RestoreAgreementTest, damage_that_one_rank_finds_passes_it_over_on_all) {
  for (const bool while_reading : {false, true}) {
    std::vector<Rank> ranks(kRanks);
    auto& act = while_reading ? ranks[2].read : ranks[2].check;
    act = [](std::uint64_t step) {
      return step == 3 ? failed(Code::corrupt, "a bad block") : RestoreReport();
    };
    for (const Outcome& outcome : restore(ranks)) {
      EXPECT_EQ(outcome.choice.name, step_name(2));
      ASSERT_EQ(outcome.choice.passed_over.size(), 1U);
      EXPECT_EQ(outcome.choice.passed_over[0].name, step_name(3));
      EXPECT_EQ(outcome.choice.passed_over[0].reason.message(), "rank 2: a bad block");
    }
    const std::vector<std::uint64_t> both = {3, 2};
    for (const Rank& rank : ranks)
      EXPECT_EQ(rank.read_steps, while_reading ? both : std::vector<std::uint64_t>{2});
  }
}

TEST_F(RestoreAgreementTest, any_other_error_is_everybodys_and_nothing_is_read) {
  for (const std::uint32_t wrong : {0U, 1U}) {
    std::vector<Rank> ranks(kRanks);
    ranks[wrong].check = [](std::uint64_t) {
      return failed(Code::invalid_argument, "w: its shape differs", "what the caller adds");
    };
    for (const Outcome& outcome : restore(ranks)) {
      ASSERT_TRUE(outcome.failure.has_value());
      EXPECT_EQ(outcome.failure->rank, wrong);
      EXPECT_EQ(outcome.failure->report.status.code(), Code::invalid_argument);
      EXPECT_EQ(outcome.failure->report.status.message(), "w: its shape differs");
      EXPECT_EQ(outcome.failure->report.detail, "what the caller adds");
    }
    for (const Rank& rank : ranks) EXPECT_TRUE(rank.read_steps.empty());
  }
}

TEST_F(RestoreAgreementTest, what_the_callers_code_says_of_files_is_neither_damage_nor_loss) {
  for (const Code code : {Code::corrupt, Code::not_found}) {
    std::vector<Rank> ranks(kRanks);
    ranks[1].check = [&](std::uint64_t) {
      RestoreReport report = failed(code, "of the caller's");
      report.is_callers = true;
      return report;
    };
    for (const Outcome& outcome : restore(ranks)) {
      ASSERT_TRUE(outcome.failure.has_value());
      EXPECT_EQ(outcome.failure->report.status.code(), code);
      EXPECT_TRUE(outcome.failure->report.is_callers);
    }
    EXPECT_EQ(ranks[0].checked.size(), 1U);
  }
}

TEST_F(RestoreAgreementTest, ranks_that_ask_for_different_checkpoints_are_told) {
  std::vector<Rank> ranks(kRanks);
  ranks[2].name = step_name(1);
  for (const Outcome& outcome : restore(ranks)) {
    ASSERT_TRUE(outcome.failure.has_value());
    EXPECT_NE(outcome.failure->report.status.message().find(
                  "rank 0 restores the newest checkpoint and rank 2 restores " + step_name(1)),
              std::string_view::npos);
  }
}

TEST_F(RestoreAgreementTest, a_rank_that_cannot_ask_ends_it_for_all) {
  std::vector<Rank> ranks(kRanks);
  std::vector<Outcome> outcomes(kRanks);
  {
    std::vector<std::jthread> threads;
    for (const std::uint32_t rank : {0U, 2U})
      threads.emplace_back([&, rank] { outcomes[rank] = restore_one(ranks[rank], rank); });
    threads.emplace_back([&] {
      const auto spoken = coordinator(1);
      RestoreAgreement agreement(*spoken, in_the_end());
      EXPECT_TRUE(agreement.refuse(failed(Code::invalid_argument, "no such setting")).ok());
      EXPECT_TRUE(agreement.take_leave());
    });
  }
  for (const std::uint32_t rank : {0U, 2U}) {
    ASSERT_TRUE(outcomes[rank].failure.has_value());
    EXPECT_EQ(outcomes[rank].failure->rank, 1U);
    EXPECT_EQ(outcomes[rank].failure->report.status.message(), "no such setting");
  }
}

TEST_F(RestoreAgreementTest, what_all_ranks_lack_fails_them_or_is_listed_if_none_is_strict) {
  for (const bool is_lenient : {false, true}) {
    std::vector<Rank> ranks(kRanks);
    const std::vector<std::vector<std::string>> lacks = {{"a", "b", "c"}, {"c", "b"}, {"b", "a"}};
    for (std::size_t i = 0; i < kRanks; ++i) {
      ranks[i].check = [&lacks, i, is_lenient](std::uint64_t) {
        return RestoreReport{.lacks = lacks[i], .is_lenient = is_lenient};
      };
      ranks[i].read = [](std::uint64_t) { return RestoreReport(); };
    }
    for (const Outcome& outcome : restore(ranks)) {
      EXPECT_EQ(outcome.failure.has_value(), !is_lenient);
      if (is_lenient)
        EXPECT_EQ(outcome.unused, std::vector<std::string>{"b"});
      else
        EXPECT_EQ(outcome.failure->report.status.message(), "no rank has these:\n  b");
    }
  }
}

TEST_F(RestoreAgreementTest, a_name_that_is_not_there_is_told_to_all) {
  std::vector<Rank> ranks(kRanks);
  for (Rank& rank : ranks) rank.name = step_name(9);
  for (const Outcome& outcome : restore(ranks)) {
    ASSERT_TRUE(outcome.failure.has_value());
    EXPECT_EQ(outcome.failure->rank, 0U);
    EXPECT_EQ(outcome.failure->report.status.code(), Code::not_found);
  }
}

TEST_F(RestoreAgreementTest, a_directory_that_is_not_there_has_no_checkpoints) {
  const auto alone = make_single_coordinator();
  const std::string missing = dir_.path() + "/missing";
  for (const std::string& name : {std::string(), step_name(1)}) {
    RestoreAgreement agreement(*alone, in_the_end());
    const Result<Outcome> outcome = agreement.restore(
        {.path = missing, .open = [&] { return open_store(missing); }, .name = name},
        {.check = {}, .read = {}});
    ASSERT_TRUE(outcome.ok());
    EXPECT_EQ(outcome->failure.has_value(), !name.empty());
    EXPECT_EQ(outcome->choice.name, "");
  }
}

TEST_F(RestoreAgreementTest, a_rank_that_gave_up_is_missed_where_nothing_is_to_be_restored) {
  const std::string missing = dir_.path() + "/missing";
  const RankRequest nothing{.path = missing, .open = [&] { return open_store(missing); }};
  const auto restore_late = [&](std::uint32_t rank) {
    const auto spoken = coordinator(rank, 2);
    RestoreAgreement agreement(*spoken, Clock::now());
    return agreement.restore(nothing, {.check = {}, .read = {}}).status();
  };
  EXPECT_EQ(restore_late(1).code(), Code::unavailable);
  EXPECT_EQ(restore_late(0).code(), Code::unavailable);
}

TEST_F(RestoreAgreementTest, a_rank_that_gives_up_after_its_request_was_read_is_missed) {
  const std::string missing = dir_.path() + "/missing";
  const RankRequest nothing{.path = missing, .open = [&] { return open_store(missing); }};
  const std::string asked = message_text({{"name", ""}, {"finite", 0U}, {"has_private_disks", 0U}});
  ASSERT_TRUE(coordinator(1, 2)->gather("tried-1", asked, in_the_end()).ok());
  const auto spoken = coordinator(0, 2);
  RestoreAgreement agreement(*spoken, Clock::now());
  const Status status = agreement.restore(nothing, {.check = {}, .read = {}}).status();
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_NE(status.message().find("rank 1 did not answer in time"), std::string_view::npos);
}

TEST_F(RestoreAgreementTest, all_ranks_hear_that_there_is_nothing) {
  const std::string missing = dir_.path() + "/missing";
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&, rank] {
      const auto spoken = coordinator(rank);
      RestoreAgreement agreement(*spoken, in_the_end());
      const Result<Outcome> outcome =
          agreement.restore({.path = missing, .open = [&] { return open_store(missing); }},
                            {.check = {}, .read = {}});
      ASSERT_TRUE(outcome.ok()) << outcome.status().message();
      EXPECT_FALSE(outcome->failure.has_value());
      EXPECT_EQ(outcome->choice.name, "");
      EXPECT_TRUE(agreement.take_leave());
    });
}

TEST_F(RestoreAgreementTest, if_none_is_valid_all_fail_with_every_reason) {
  std::vector<Rank> ranks(kRanks);
  ranks[1].check = [](std::uint64_t step) {
    return failed(Code::corrupt, "bad " + std::to_string(step));
  };
  for (const Outcome& outcome : restore(ranks)) {
    ASSERT_TRUE(outcome.failure.has_value());
    EXPECT_EQ(outcome.failure->report.status.code(), Code::corrupt);
    for (const char* reason : {"rank 1: bad 3", "rank 1: bad 2", "rank 1: bad 1"})
      EXPECT_NE(outcome.failure->report.status.message().find(reason), std::string_view::npos);
  }
}

TEST_F(RestoreAgreementTest, a_rank_that_does_not_answer_is_named_and_the_session_is_kept) {
  const auto spoken = coordinator(0);
  RestoreAgreement agreement(*spoken, Clock::now());
  const Result<Outcome> outcome = agreement.restore(
      request(""), {.check = [&](const CheckpointReader&) { return RestoreReport(); }, .read = {}});
  EXPECT_EQ(outcome.status().code(), Code::unavailable);
  EXPECT_FALSE(agreement.take_leave());
}

}  // namespace
}  // namespace stoker
