#include "checkpoint/ranks/coordinator.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <filesystem>
#include <thread>

#include "checkpoint/save/save_messages.h"
#include "checkpoint/save_support.h"
#include "support/hooked_file_ops.h"

namespace stoker {
namespace {

using testing::counted;
using testing::opened;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;

constexpr std::uint32_t kRanks = 3;

/// Ends a test that would otherwise hang; no result depends on it.
Deadline in_the_end() {
  return deadline_after(std::chrono::seconds(60));
}

std::shared_ptr<Coordinator> coordinator_of(const std::string& directory, std::uint32_t rank) {
  Result<std::unique_ptr<Coordinator>> made =
      make_shared_directory_coordinator({.place = opened(directory),
                                         .word = "job",
                                         .session = "1.0",
                                         .rank = rank,
                                         .world_size = kRanks});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return std::shared_ptr<Coordinator>(*std::move(made));
}

/// Runs `body` once for each rank, on threads of their own.
template <typename Body>
void on_every_rank(Body&& body) {
  std::vector<std::jthread> threads;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    threads.emplace_back([&body, rank] { body(rank); });
}

SaverOptions rank_options(const std::string& directory, std::uint32_t rank) {
  SaverOptions options = quiet_options(directory);
  options.coordinator = coordinator_of(directory, rank);
  return options;
}

bool has_message(const std::string& directory) {
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator(directory, none))
    if (entry.path().filename().string().starts_with("message-")) return true;
  return false;
}

std::vector<OwnedTensor> tensors_of(std::uint32_t rank) {
  return {counted("own." + std::to_string(rank), 2'000 + rank, static_cast<float>(rank))};
}

TEST(CoordinatorTest, one_process_talks_to_itself) {
  const std::unique_ptr<Coordinator> alone = make_single_coordinator();
  EXPECT_EQ(alone->gather("k", "text", Deadline::max())->at(0), "text");
  EXPECT_EQ(*alone->broadcast("k", "text", Deadline::max()), "text");
}

TEST(CoordinatorTest, a_session_is_a_plain_name) {
  const testing::TempDir dir;
  const std::string long_one(101, 'x');
  for (const std::string& word :
       {std::string(), std::string("../x"), std::string("a/b"), std::string("a b"), long_one}) {
    for (const bool is_session : {true, false}) {
      const auto made =
          make_shared_directory_coordinator({.place = opened(dir.path()),
                                             .word = is_session ? "word" : word,
                                             .session = is_session ? word : "session"});
      EXPECT_EQ(made.status().code(), Code::invalid_argument) << word;
    }
  }
}

TEST(CoordinatorTest, messages_of_another_session_or_word_are_not_heard) {
  const testing::TempDir dir;
  const auto coordinator = [&](const char* word, const char* session, std::uint32_t rank) {
    return *make_shared_directory_coordinator({.place = opened(dir.path()),
                                               .word = word,
                                               .session = session,
                                               .rank = rank,
                                               .world_size = 2});
  };
  const Deadline soon = deadline_after(std::chrono::milliseconds(20));
  ASSERT_TRUE(coordinator("a", "1", 0)->broadcast("k", "old", soon).ok());
  EXPECT_FALSE(coordinator("a", "2", 1)->broadcast("k", "", soon).ok());
  EXPECT_FALSE(coordinator("b", "1", 1)->broadcast("k", "", soon).ok());
  EXPECT_EQ(*coordinator("a", "1", 1)->broadcast("k", "", soon), "old");
}

TEST(CoordinatorTest, a_directory_that_was_swept_is_made_again) {
  const testing::TempDir dir;
  const auto rank_0 = coordinator_of(dir.path(), 0);
  ASSERT_TRUE(rank_0->broadcast("a", "first", in_the_end()).ok());
  std::filesystem::remove_all(dir.file(".meeting-job"));
  ASSERT_TRUE(rank_0->broadcast("b", "second", in_the_end()).ok());
  EXPECT_EQ(*coordinator_of(dir.path(), 1)->broadcast("b", "", in_the_end()), "second");
}

TEST(CoordinatorTest, nobody_waits_for_a_message_that_found_no_space) {
  const testing::TempDir dir;
  bool is_full = true;
  testing::HookedFileOps ops(posix_file_ops(), [&](std::string_view op, const PathAt*) {
    return is_full && op == "pwrite" ? Status::from_errno(ENOSPC, "pwrite", "") : Status();
  });
  const auto leader = coordinator_of(dir.path(), 0);
  const auto full = [&](std::uint32_t rank) {
    return *make_shared_directory_coordinator({.place = opened(dir.path()).with(ops),
                                               .word = "job",
                                               .session = "1.0",
                                               .rank = rank,
                                               .world_size = kRanks});
  };
  const auto follower = full(1);
  ASSERT_TRUE(coordinator_of(dir.path(), 2)->gather("a", "from 2", in_the_end()).ok());
  const Status failed = follower->gather("a", "from 1", in_the_end()).status();
  EXPECT_EQ(failed.code(), Code::no_space);
  EXPECT_NE(failed.message().find("delete another file"), std::string_view::npos);
  const Status heard = leader->gather("a", "", in_the_end()).status();  // at once
  EXPECT_EQ(heard.code(), Code::no_space);
  EXPECT_NE(heard.message().find("rank 1 found no space"), std::string_view::npos);

  // Rank 0 answers while rank 2 waits.
  const auto full_leader = full(0);
  const auto waiting = *make_shared_directory_coordinator(
      {.place = opened(dir.path()),
       .word = "job",
       .session = "1.0",
       .rank = 2,
       .world_size = kRanks,
       .pause = [&](nanoseconds) {
         static_cast<void>(full_leader->broadcast("b", "text", in_the_end()));
         return Status();
       }});
  EXPECT_EQ(waiting->broadcast("b", "", in_the_end()).status().code(), Code::no_space);

  is_full = false;
  ASSERT_TRUE(follower->gather("a", "again", in_the_end()).ok());
  EXPECT_EQ(*leader->gather("a", "from 0", in_the_end()),
            (std::vector<std::string>{"from 0", "again", "from 2"}));
  EXPECT_EQ(*waiting->broadcast("b", "", in_the_end()), "text");
}

TEST(CoordinatorTest, what_ranks_tell_each_other_survives_the_journey) {
  const BeginMessage begin{.step = 7,
                           .size_bytes = 1ULL << 60U,
                           .is_late = true,
                           .waiting_number = 3,
                           .failed_number = 2,
                           .failure = Status(Code::no_space, "full \"disk\"", 28),
                           .unreserved_bytes = 5};
  const Result<BeginMessage> again = parse_begin_message(format_message(begin));
  ASSERT_TRUE(again.ok());
  EXPECT_EQ(again->size_bytes, begin.size_bytes);
  EXPECT_EQ(again->waiting_number, 3U);
  EXPECT_EQ(again->failure.code(), Code::no_space);
  EXPECT_EQ(again->failure.os_error(), 28);
  EXPECT_EQ(again->failure.message(), "full \"disk\"");
  EXPECT_EQ(again->free_bytes, kUnknownBytes);
  EXPECT_EQ(again->unreserved_bytes, 5U);
  EXPECT_EQ(parse_verdict("{}").status().code(), Code::corrupt);
  EXPECT_EQ(parse_end_message("[]").status().code(), Code::corrupt);
  EXPECT_EQ(parse_part_message("").status().code(), Code::corrupt);
}

TEST(ShardedSaveTest, every_rank_writes_its_own_file_of_one_checkpoint) {
  const testing::TempDir dir;
  on_every_rank([&](std::uint32_t rank) {
    auto saver = CheckpointSaver::make(rank_options(dir.path(), rank));
    ASSERT_TRUE(saver.ok());
    const std::vector<OwnedTensor> tensors = tensors_of(rank);
    for (const std::uint64_t step : {1U, 2U, 3U}) {
      const Result<PendingSave> pending = (*saver)->save(request_of(step, tensors));
      ASSERT_TRUE(pending.ok()) << pending.status().message();
      ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
      EXPECT_EQ(pending->generation(), step);
    }
    ASSERT_TRUE((*saver)->close().ok());
  });
  const CheckpointManifest manifest = testing::manifest_in(dir.file("step-000000000003"));
  EXPECT_EQ(manifest.world_size, kRanks);
  EXPECT_EQ(manifest.state_json.size(), kRanks);
  testing::expect_whole(dir.file("step-000000000003"));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    const std::string path = dir.file("step-000000000003/" + rank_file_name(rank));
    EXPECT_EQ(testing::read_plainly(path, "own." + std::to_string(rank)),
              tensors_of(rank)[0].values);
  }
}

TEST(ShardedSaveTest, a_rank_that_fails_fails_the_checkpoint_everywhere_and_is_named) {
  const testing::TempDir dir;
  on_every_rank([&](std::uint32_t rank) {
    SaverOptions options = rank_options(dir.path(), rank);
    bool is_broken = rank == 2;
    options.engine = [&]() -> Result<std::unique_ptr<Engine>> {
      if (std::exchange(is_broken, false)) return Status(Code::io_error, "broken disk");
      return make_engine(EngineKind::sync, {});
    };
    auto saver = CheckpointSaver::make(std::move(options));
    ASSERT_TRUE(saver.ok());
    const std::vector<OwnedTensor> tensors = tensors_of(rank);
    const Result<PendingSave> pending = (*saver)->save(request_of(1, tensors));
    ASSERT_TRUE(pending.ok());
    const Status error = pending->wait();
    EXPECT_EQ(error.code(), Code::io_error);
    EXPECT_NE(error.message().find("rank 2"), std::string_view::npos) << error.message();
    EXPECT_EQ(pending->outcome(), SaveOutcome::failed);
    // Told on every rank once, whoever comes first; then the run continues to save.
    EXPECT_FALSE((*saver)->save(request_of(2, tensors)).ok());
    const Result<PendingSave> next = (*saver)->save(request_of(2, tensors));
    ASSERT_TRUE(next.ok()) << next.status().message();
    EXPECT_TRUE(next->wait().ok()) << next->wait().message();
    ASSERT_TRUE((*saver)->close().ok());
  });
  EXPECT_FALSE(std::filesystem::exists(dir.file("step-000000000001")));
  testing::expect_whole(dir.file("step-000000000002"));
}

TEST(ShardedSaveTest, what_cannot_be_saved_on_one_rank_is_refused_on_all) {
  const testing::TempDir dir;
  on_every_rank([&](std::uint32_t rank) {
    auto saver = CheckpointSaver::make(rank_options(dir.path(), rank));
    ASSERT_TRUE(saver.ok());
    const std::vector<OwnedTensor> tensors = tensors_of(rank);  // must outlive the save
    SaveRequest request = request_of(1, tensors);
    if (rank == 1) request.tensors.push_back({.name = "bad", .shape = {3}});
    const Status refused = (*saver)->save(request).status();
    EXPECT_EQ(refused.code(), Code::invalid_argument);
    EXPECT_NE(refused.message().find("rank 1: tensor bad"), std::string_view::npos)
        << refused.message();
    SaveRequest other = request_of(rank == 2 ? 5 : 4, {});
    EXPECT_NE((*saver)->save(other).status().message().find("rank 2 saves step 5"),
              std::string_view::npos);
  });
}

TEST(ShardedSaveTest, a_missing_rank_fails_the_save_by_the_deadline) {
  const testing::TempDir dir;
  on_every_rank([&](std::uint32_t rank) {
    if (rank == 2) return;
    SaverOptions options = rank_options(dir.path(), rank);
    if (rank == 0) options.deadline = std::chrono::milliseconds(200);
    auto saver = CheckpointSaver::make(std::move(options));
    ASSERT_TRUE(saver.ok());
    const std::vector<OwnedTensor> tensors = tensors_of(rank);  // must outlive the save
    SaveRequest request = request_of(1, tensors);
    if (rank == 1) request.deadline = std::chrono::seconds(30);  // rank 0 tells it before that
    // Rank 1 has answered before rank 0 begins to wait.
    while (rank == 0 && !has_message(dir.file(".meeting-job"))) std::this_thread::yield();
    const Status failed = (*saver)->save(std::move(request)).status();
    EXPECT_EQ(failed.code(), Code::unavailable);
    EXPECT_NE(failed.message().find(" did not answer"), std::string_view::npos);
    if (rank == 0) {
      EXPECT_NE(failed.message().find("rank 2 did not answer"), std::string_view::npos)
          << failed.message();
    }
  });
  EXPECT_FALSE(std::filesystem::exists(dir.file("step-000000000001")));
}

}  // namespace
}  // namespace stoker
