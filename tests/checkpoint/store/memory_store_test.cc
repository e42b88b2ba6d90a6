// Saves, restores, retention, notes and verification through a store that is no directory.

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/save_support.h"
#include "checkpoint/toys/memory_checkpoint_store.h"

namespace stoker {
namespace {

using testing::counted;
using testing::make_saver;
using testing::MemoryBucket;
using testing::MemoryCheckpointStore;
using testing::OwnedTensor;
using testing::request_of;

class MemoryStoreTest : public ::testing::Test {
 protected:
  SaverOptions options() {
    SaverOptions options = testing::quiet_options("");
    options.store = std::make_shared<const MemoryCheckpointStore>(bucket_);
    options.group_limits.group_bytes_min = 1;
    return options;
  }
  static PendingSave save(CheckpointSaver& saver, std::uint64_t step,
                          const std::vector<OwnedTensor>& tensors) {
    Result<PendingSave> pending = saver.save(request_of(step, tensors));
    EXPECT_TRUE(pending.ok()) << pending.status().message();
    EXPECT_TRUE(pending->wait().ok()) << pending->wait().message();
    return *pending;
  }
  std::vector<float> read(const CheckpointReader& reader, const std::string& name) {
    const TensorInfo* const tensor = reader.find(name);
    EXPECT_NE(tensor, nullptr);
    std::vector<float> values(tensor == nullptr ? 0 : tensor->size_bytes / sizeof(float));
    const Status status =
        reader.read({.name = name, .memory = std::as_writable_bytes(std::span(values))});
    EXPECT_TRUE(status.ok()) << status.message();
    return values;
  }
  std::vector<float> read(const std::string& step, const std::string& name) {
    const Result<CheckpointReader> reader = CheckpointReader::open(store_, step, {});
    EXPECT_TRUE(reader.ok()) << reader.status().message();
    return reader.ok() ? read(*reader, name) : std::vector<float>();
  }
  std::set<std::string> names() {
    const Result<Catalog> catalog = list_checkpoints(store_);
    EXPECT_TRUE(catalog.ok()) << catalog.status().message();
    std::set<std::string> names;
    for (const CatalogStep& step : catalog->steps) names.insert(step.name);
    return names;
  }
  void expect_verified(std::uint64_t step_count) {
    const Result<CheckpointVerifyReport> report = verify_checkpoints(store_, {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->step_count, step_count);
    for (const CheckpointDamage& damage : report->damages)
      ADD_FAILURE() << damage.step << "/" << damage.file << ": " << damage.reason;
  }

  const std::shared_ptr<MemoryBucket> bucket_ = std::make_shared<MemoryBucket>();
  const MemoryCheckpointStore store_{bucket_};
};

TEST_F(MemoryStoreTest, a_state_is_saved_and_restored_to_the_bit) {
  const std::vector<OwnedTensor> tensors{counted("w", 3'000'000, 1), counted("bias", 17, -4)};
  const auto saver = make_saver(options());
  save(*saver, 1000, tensors);
  ASSERT_TRUE(saver->close().ok());
  std::vector<float> restored;
  const Result<RestoreChoice> choice =
      choose_checkpoint({.directory = store_}, [&](const CheckpointReader& reader) {
        restored = read(reader, "w");
        return Status();
      });
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->name, step_name(1000));
  EXPECT_EQ(restored, tensors[0].values);
  EXPECT_EQ(read(step_name(1000), "bias"), tensors[1].values);
  expect_verified(1);
}

TEST_F(MemoryStoreTest, more_than_the_memory_passes_through_a_ring_of_chunks) {
  const std::vector<OwnedTensor> tensors{counted("w", 10'000'000, 1)};
  SaverOptions narrow = options();
  narrow.memory_bytes = 8 << 20;
  const auto saver = make_saver(std::move(narrow));
  save(*saver, 1, tensors);
  EXPECT_EQ(read(step_name(1), "w"), tensors[0].values);
}

TEST_F(MemoryStoreTest, what_does_not_change_is_copied_on_the_server_and_outlives_its_parent) {
  int copies = 0;
  bucket_->fate = [&](const std::string& request) {
    copies += request.starts_with("copy ") ? 1 : 0;
    return testing::Fate::served;
  };
  SaverOptions keeps_one = options();
  keeps_one.retention.keep_last = 1;
  const auto saver = make_saver(std::move(keeps_one));
  std::vector<OwnedTensor> tensors{counted("changing", 5'000, 1), counted("frozen", 5'000, 7)};
  for (std::uint64_t step = 1; step <= 5; ++step) {
    tensors[0].values[0] = static_cast<float>(step) + 0.5F;
    save(*saver, step, tensors);
  }
  ASSERT_TRUE(saver->close().ok());
  EXPECT_GT(copies, 0);
  EXPECT_EQ(names(), std::set<std::string>{step_name(5)});
  EXPECT_EQ(read(step_name(5), "changing"), tensors[0].values);
  EXPECT_EQ(read(step_name(5), "frozen"), tensors[1].values);
  expect_verified(1);
}

TEST_F(MemoryStoreTest, retention_keeps_what_is_pinned) {
  SaverOptions keeps_one = options();
  keeps_one.retention.keep_last = 1;
  const auto saver = make_saver(std::move(keeps_one));
  const std::vector<OwnedTensor> tensors{counted("w", 100, 1)};
  const PendingSave first = save(*saver, 1, tensors);
  ASSERT_TRUE(pin_checkpoint(store_, 1, first.generation(), true, first.line()).ok());
  for (std::uint64_t step = 2; step <= 4; ++step) save(*saver, step, tensors);
  EXPECT_EQ(names(), (std::set<std::string>{step_name(1), step_name(4)}));
}

TEST_F(MemoryStoreTest, a_rewound_run_supersedes_and_one_that_continues_is_refused) {
  const std::vector<OwnedTensor> first{counted("w", 100, 1)};
  const std::vector<OwnedTensor> second{counted("w", 100, 2)};
  std::optional<CheckpointParent> start;
  {
    const auto saver = make_saver(options());
    const PendingSave saved = save(*saver, 1, first);
    start = CheckpointParent{.step = 1, .generation = saved.generation(), .line = saved.line()};
    save(*saver, 2, first);
    const Result<PendingSave> again = saver->save(request_of(2, first));
    EXPECT_EQ(again.status().code(), Code::already_exists);
  }
  SaverOptions rewound = options();
  rewound.parent = start;
  const auto saver = make_saver(std::move(rewound));
  save(*saver, 2, second);
  EXPECT_EQ(names(), (std::set<std::string>{step_name(1), step_name(2), superseded_name(2, 2)}));
  EXPECT_EQ(read(step_name(2), "w"), second[0].values);
  EXPECT_EQ(read(superseded_name(2, 2), "w"), first[0].values);
}

TEST_F(MemoryStoreTest, a_second_writer_is_refused_and_told_who_holds_the_lock) {
  const std::vector<OwnedTensor> tensors{counted("w", 100, 1)};
  const auto first = make_saver(options());
  save(*first, 1, tensors);
  SaverOptions late = options();
  late.lock.ttl = std::chrono::hours(1);
  const auto second = make_saver(std::move(late));
  const Result<PendingSave> refused = second->save(request_of(2, tensors));
  EXPECT_EQ(refused.status().code(), Code::unavailable) << refused.status().message();
  EXPECT_NE(refused.status().message().find("another writer holds it"), std::string_view::npos);
}

TEST_F(MemoryStoreTest, a_writer_that_was_taken_over_says_so_and_saves_again_after_that) {
  const std::vector<OwnedTensor> tensors{counted("w", 100, 1)};
  const auto slow = make_saver(options());
  save(*slow, 1, tensors);
  {
    const auto fast = make_saver(options());  // its ttl is 0: nobody is waited for
    save(*fast, 2, tensors);
  }
  const Result<PendingSave> fenced = slow->save(request_of(3, tensors));
  ASSERT_TRUE(fenced.ok()) << fenced.status().message();
  const Status failed = fenced->wait();
  EXPECT_EQ(failed.code(), Code::unavailable) << failed.message();
  EXPECT_NE(failed.message().find("another writer has taken over"), std::string_view::npos)
      << failed.message();
  EXPECT_FALSE(slow->wait().ok());  // tells it once more
  EXPECT_EQ(names(), (std::set<std::string>{step_name(1), step_name(2)}));
  save(*slow, 4, tensors);
  EXPECT_TRUE(names().contains(step_name(4)));
}

TEST_F(MemoryStoreTest, ranks_stage_their_parts_and_rank_0_commits_them_all) {
  constexpr std::uint32_t kRanks = 3;
  const testing::TempDir meeting;  // ranks talk in a directory; what they save goes elsewhere
  const auto tensor_of = [](std::uint32_t rank) {
    return counted("of-rank-" + std::to_string(rank), 1'000, static_cast<float>(rank));
  };
  {
    std::vector<std::jthread> ranks;
    for (std::uint32_t rank = 0; rank < kRanks; ++rank)
      ranks.emplace_back([&, rank] {
        Result<std::unique_ptr<Coordinator>> coordinator =
            make_shared_directory_coordinator({.place = testing::opened(meeting.path()),
                                               .word = "job",
                                               .session = "job",
                                               .rank = rank,
                                               .world_size = kRanks});
        ASSERT_TRUE(coordinator.ok()) << coordinator.status().message();
        SaverOptions mine = options();
        mine.coordinator = std::shared_ptr<Coordinator>(*std::move(coordinator));
        const auto saver = make_saver(std::move(mine));
        for (std::uint64_t step = 1; step <= 2; ++step) save(*saver, step, {tensor_of(rank)});
        EXPECT_TRUE(saver->close().ok());
      });
  }
  EXPECT_EQ(names(), (std::set<std::string>{step_name(1), step_name(2)}));
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(read(step_name(2), "of-rank-" + std::to_string(rank)), tensor_of(rank).values);
  expect_verified(2);
}

}  // namespace
}  // namespace stoker
