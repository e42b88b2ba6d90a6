// What the catalog file says is not believed where something is removed, numbered or restored.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "checkpoint/catalog/history.h"
#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/directory/catalog_file.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/step_builder.h"
#include "io/files/forwarding_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

/// Counts the manifests that are opened.
class CountingFileOps final : public ForwardingFileOps {
 public:
  CountingFileOps() : ForwardingFileOps(posix_file_ops()) {}
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    if (path.last() == kManifestName) ++manifest_count;
    return ForwardingFileOps::open(path, flags);
  }

  int manifest_count = 0;
};

/// Steps 1 to 4, each of its own generation, that continue each other; `latest` leads to the last.
class HearsayTest : public ::testing::Test {
 protected:
  HearsayTest() {
    for (std::uint64_t step = 1; step <= 4; ++step) write(step, step);
    fs::create_symlink(step_name(4), dir_.file("latest"));
    must(owner_.make());
  }
  void write(std::uint64_t step, std::uint64_t generation) const {
    BuiltStep built = small_step(step, generation);
    if (generation > 1) built.parent = CheckpointParent{step - 1, generation - 1};
    write_built_step(posix_file_ops(), dir_.path(), built);
  }

  /// Writes a catalog file that tells something else of some checkpoints, under valid checksums.
  void forge(const std::function<void(StepSummary&)>& change) const {
    CatalogReader reader(run_);
    must(reader.list().status());
    CatalogLines lines = reader.lines();
    for (auto& [name, line] : lines) change(line.summary);
    const CatalogWriter writer(owner_, lines);
  }
  Names retire(const RetentionRules& rules) const {
    CatalogReader catalog(run_);
    NotesReader notes(run_);
    return retire_unwanted(owner_, rules, catalog, notes).names;
  }
  RestoreChoice restore(bool finite = false) const {
    const Result<RestoreChoice> choice =
        choose_checkpoint({.directory = run_, .finite = finite, .reader = plain_reader()},
                          [](const CheckpointReader&) { return Status(); });
    EXPECT_TRUE(choice.ok()) << choice.status().message();
    return *choice;
  }
  void spoil_manifest(std::uint64_t step) const {
    const std::string path = dir_.file(step_name(step) + "/manifest.json");
    fs::permissions(path, fs::perms::owner_all);
    std::fstream(path, std::ios::in | std::ios::out).seekp(40).put('#');
  }

  const TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
  const OwnerDirectory owner_{run_, "writer"};
};

TEST_F(HearsayTest, retention_ranks_by_manifests) {
  forge([](StepSummary& step) { step.reference["loss"] = static_cast<double>(step.step); });
  const KeepBest best{.metric = "loss"};
  EXPECT_EQ(retire({.keep_best = best}), Names{}) << "none has the value";
  forge([](StepSummary& step) { step.generation = step.step == 1 ? 9 : step.generation; });
  EXPECT_EQ(retire({.keep_last = 2}), (Names{step_name(1), step_name(2)}));
}

TEST_F(HearsayTest, retention_finds_the_newest_finite_one_by_manifests) {
  BuiltStep wrong = small_step(5, 5);
  wrong.parent = CheckpointParent{4, 4};
  wrong.ranks[0].push_back(
      {.name = "w", .type = TensorType::f32, .shape = {1}, .bytes = float_bytes({NAN})});
  write_built_step(posix_file_ops(), dir_.path(), wrong);
  forge([](StepSummary& step) { step.nonfinite["w"] = 7; });
  EXPECT_EQ(retire({.keep_last = 1, .keep_every = 3}), (Names{step_name(1), step_name(2)}));
  EXPECT_EQ(restore(/*finite=*/true).name, step_name(4));
}

TEST_F(HearsayTest, what_no_removal_depends_on_is_not_read) {
  for (std::uint64_t step = 5; step <= 40; ++step) write(step, step);
  fs::remove(dir_.file("latest"));
  forge([](StepSummary&) {});
  CountingFileOps ops;
  CatalogReader catalog(run_.with(ops));
  NotesReader notes(run_);
  const OwnerDirectory owner(run_.with(ops), "writer");
  EXPECT_EQ(retire_unwanted(owner, {.keep_last = 2, .keep_every = 1}, catalog, notes).names,
            Names{});
  EXPECT_LE(ops.manifest_count, 2) << "nothing goes";
  ops.manifest_count = 0;
  EXPECT_EQ(retire_unwanted(owner, {.keep_last = 39}, catalog, notes).names, Names{step_name(1)});
  EXPECT_LE(ops.manifest_count, 40 + 5);
  ops.manifest_count = 0;
  EXPECT_EQ(retire_unwanted(owner, {.keep_last = 38}, catalog, notes).names, Names{step_name(2)});
  EXPECT_LE(ops.manifest_count, 5) << "each is read once";
}

TEST_F(HearsayTest, a_restore_takes_the_newest_by_manifests) {
  forge([](StepSummary& step) { step.generation = step.step == 2 ? 9 : step.generation; });
  EXPECT_EQ(restore().name, step_name(4));
  forge([](StepSummary& step) { step.generation = 1; });
  EXPECT_EQ(restore().name, step_name(4));
  forge([](StepSummary& step) { step.generation = step.step == 3 ? 1 : step.generation; });
  spoil_manifest(4);
  EXPECT_EQ(restore().name, step_name(3));
}

TEST_F(HearsayTest, a_writer_numbers_the_next_by_manifests) {
  forge([](StepSummary& step) { step.generation = 1; });
  History history(run_);
  must(history.refresh());
  EXPECT_EQ(history.greatest_generation(), 4U);
}

TEST_F(HearsayTest, a_pin_that_returned_is_about_a_generation_that_is_there) {
  forge([](StepSummary& step) { step.generation = step.step == 2 ? 3 : step.generation; });
  EXPECT_EQ(pin_checkpoint(run_, 2, 3, true).code(), Code::not_found);
}

// The catalog file is all that knows what the damaged one continued.
TEST_F(HearsayTest, after_damage_a_restore_stays_with_its_own_run) {
  write(90, 5);  // of another run: its parent is not there
  BuiltStep own = small_step(6, 6);
  own.parent = CheckpointParent{4, 4};
  write_built_step(posix_file_ops(), dir_.path(), own);
  forge([](StepSummary&) {});
  spoil_manifest(6);
  RestoreChoice choice = restore();
  EXPECT_EQ(choice.name, step_name(4));
  fs::remove_all(dir_.file(step_name(4)));
  choice = restore();
  EXPECT_EQ(choice.name, step_name(90));
  ASSERT_EQ(choice.passed_over.size(), 1U);
  EXPECT_NE(choice.passed_over[0].reason.message().find(
                step_name(90) + ", which is taken instead, is of another run"),
            std::string_view::npos)
      << choice.passed_over[0].reason.message();
}

TEST_F(HearsayTest, of_equal_generations_the_one_that_latest_leads_to_is_the_newest) {
  write(7, 4);
  EXPECT_EQ(restore().name, step_name(4));
}

}  // namespace
}  // namespace stoker::testing
