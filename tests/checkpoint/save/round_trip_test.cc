/// \file
/// What the save side writes, the read side reads: both of the product, on a real filesystem.

#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/inspect/diff.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/restore/reader.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/save_support.h"
#include "checkpoint/step_builder.h"

namespace stoker::testing {
namespace {

/// A frozen tensor of more than a chunk, worth a file of its own, and one that changes.
std::vector<OwnedTensor> tensors_at(std::uint64_t step) {
  return {counted("frozen", 1'300'000, 0), counted("trained", 5000, static_cast<float>(step))};
}

void save_steps(SaverOptions options, std::initializer_list<std::uint64_t> steps) {
  Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(options));
  ASSERT_TRUE(saver.ok()) << saver.status().message();
  for (const std::uint64_t step : steps) {
    const std::vector<OwnedTensor> tensors = tensors_at(step);
    Result<PendingSave> pending = (*saver)->save(request_of(step, tensors));
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    must((*saver)->wait());
  }
  must((*saver)->close());
}

Status expect_tensors(const CheckpointReader& reader) {
  for (const OwnedTensor& tensor : tensors_at(reader.manifest().step)) {
    std::vector<float> values(tensor.values.size());
    STOKER_TRY(
        reader.read({.name = tensor.name, .memory = std::as_writable_bytes(std::span(values))}));
    EXPECT_EQ(values, tensor.values) << tensor.name;
  }
  return {};
}

void expect_no_damage(const std::string& directory, std::uint64_t step_count) {
  const Result<CheckpointVerifyReport> report = verify_checkpoints(opened(directory), {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->step_count, step_count);
  for (const CheckpointDamage& damage : report->damages)
    ADD_FAILURE() << damage.step << "/" << damage.file << ": " << damage.reason;
}

TEST(CheckpointRoundTripTest, what_was_saved_verifies_and_comes_back) {
  const TempDir dir;
  save_steps(quiet_options(dir.path()), {10, 20, 30, 40});
  expect_no_damage(dir.path(), 4);
  for (const std::uint64_t step : {10U, 20U, 30U, 40U}) {
    const Result<CheckpointReader> reader =
        CheckpointReader::open(posix_file_ops(), dir.file(step_name(step)), {});
    ASSERT_TRUE(reader.ok()) << reader.status().message();
    must(expect_tensors(*reader));
  }
  const auto open = [&](std::uint64_t step) {
    return *CheckpointReader::open(posix_file_ops(), dir.file(step_name(step)), {});
  };
  const Result<CheckpointDiff> diff = diff_checkpoints(open(30), open(40));
  ASSERT_TRUE(diff.ok());
  ASSERT_EQ(diff->changed.size(), 1U);
  EXPECT_EQ(diff->changed[0].name, "trained");
  EXPECT_EQ(diff->changed[0].max_abs, 10);
  EXPECT_EQ(diff->unchanged_count, 1U);
}

TEST(CheckpointRoundTripTest, retention_after_each_commit_harms_no_linked_file) {
  const TempDir dir;
  SaverOptions options = quiet_options(dir.path());
  options.retention = {.keep_last = 2};
  save_steps(options, {10, 20, 30, 40, 50});
  expect_no_damage(dir.path(), 2);
  const Result<Catalog> catalog = list_checkpoints(opened(dir.path()));
  EXPECT_EQ(catalog->latest, step_name(50));
  EXPECT_EQ(catalog->newest()->name, step_name(50));
  EXPECT_GT(catalog->newest()->summary->linked_bytes, 0U)
      << "nothing was linked, so nothing was shown";
  const Result<RestoreChoice> choice =
      choose_checkpoint({.directory = opened(dir.path())}, expect_tensors);
  EXPECT_EQ(choice->name, step_name(50));
}

TEST(CheckpointRoundTripTest, a_rewound_run_leaves_what_it_replaced_restorable_by_name) {
  const TempDir dir;
  save_steps(quiet_options(dir.path()), {10, 20, 30});
  const std::uint64_t generation =
      list_checkpoints(opened(dir.path()))->find(step_name(10))->generation;
  SaverOptions options = quiet_options(dir.path());
  options.parent = CheckpointParent{10, generation};
  save_steps(options, {20});
  const Result<Catalog> catalog = list_checkpoints(opened(dir.path()));
  ASSERT_EQ(catalog->steps.size(), 4U);
  EXPECT_EQ(catalog->newest()->name, step_name(20)) << "not the greatest step";
  const auto old = std::ranges::find_if(catalog->steps, &CatalogStep::is_superseded);
  ASSERT_NE(old, catalog->steps.end());
  const Result<RestoreChoice> choice =
      choose_checkpoint({.directory = opened(dir.path()), .name = old->name}, expect_tensors);
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->name, old->name);
  expect_no_damage(dir.path(), 4);
}

}  // namespace
}  // namespace stoker::testing
