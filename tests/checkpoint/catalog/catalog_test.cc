#include "checkpoint/catalog/catalog.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/step_builder.h"
#include "io/files/forwarding_file_ops.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

Catalog list(const std::string& directory) {
  Result<Catalog> catalog = list_checkpoints(opened(directory));
  EXPECT_TRUE(catalog.ok()) << catalog.status().message();
  return *std::move(catalog);
}

TEST(CatalogTest, newest_is_the_greatest_generation_not_the_greatest_step) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(300, 3));
  write_built_step(posix_file_ops(), dir.path(), small_step(200, 4));
  BuiltStep old = small_step(200, 2);
  old.name = superseded_name(200, 2);
  write_built_step(posix_file_ops(), dir.path(), old);
  fs::create_symlink(step_name(200), dir.file("latest"));
  for (const char* other : {"owner-abc", ".trash-1", "notes", "step-7"})
    fs::create_directory(dir.file(other));
  const Catalog catalog = list(dir.path());
  ASSERT_EQ(catalog.steps.size(), 3U);
  EXPECT_EQ(catalog.newest()->name, step_name(200));
  EXPECT_EQ(catalog.latest, step_name(200));
  EXPECT_EQ(catalog.steps[1].name, step_name(300));
  EXPECT_TRUE(catalog.steps[2].is_superseded());
  EXPECT_EQ(catalog.find(superseded_name(200, 2))->generation, 2U);
}

TEST(CatalogTest, damage_has_its_reason_and_is_never_the_newest) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(1, 1));
  write_built_step(posix_file_ops(), dir.path(), small_step(2, 2));
  fs::create_directory(dir.file(step_name(3)));
  std::ofstream(dir.file(step_name(4))) << "a file";
  std::ofstream(dir.file(step_name(2) + "/manifest.json"), std::ios::app) << " ";
  const Catalog catalog = list(dir.path());
  ASSERT_EQ(catalog.steps.size(), 4U);
  EXPECT_EQ(catalog.newest()->name, step_name(1));
  for (const int step : {2, 3, 4}) {
    const CatalogStep* found = catalog.find(step_name(static_cast<std::uint64_t>(step)));
    EXPECT_FALSE(found->is_valid());
    EXPECT_TRUE(is_damage(found->problem)) << found->problem.message();
  }
  EXPECT_EQ(CheckpointDirectory::open(posix_file_ops(), dir.file("none")).status().code(),
            Code::not_found);
}

/// Retention and a commit get in the way of each of the first listings.
class ChangingFileOps final : public ForwardingFileOps {
 public:
  ChangingFileOps(FileOps& target, std::string directory)
      : ForwardingFileOps(target), directory_(std::move(directory)) {}

  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    Result<std::vector<DirectoryName>> names = ForwardingFileOps::list_names(path);
    ++list_count;
    if (step_ > 3) return names;
    fs::remove_all(directory_ + "/" + step_name(step_));
    ++step_;
    write_built_step(posix_file_ops(), directory_, small_step(step_ + 2, step_ + 2));
    return names;
  }

  int list_count = 0;

 private:
  const std::string directory_;
  std::uint64_t step_ = 1;
};

TEST(CatalogTest, a_directory_that_changes_is_listed_again) {
  const TempDir dir;
  for (const std::uint64_t step : {1U, 2U, 3U})
    write_built_step(posix_file_ops(), dir.path(), small_step(step, step));
  ChangingFileOps ops(posix_file_ops(), dir.path());
  const Result<Catalog> catalog = list_checkpoints(opened(dir.path()).with(ops));
  ASSERT_TRUE(catalog.ok()) << catalog.status().message();
  EXPECT_EQ(ops.list_count, 4);
  ASSERT_EQ(catalog->steps.size(), 3U);
  for (const CatalogStep& step : catalog->steps) EXPECT_TRUE(step.problem.ok());
}

/// As the kernel does to whoever reads names while others change: a step that was removed before it
/// is not given, and neither is one that was made behind the place it had got to.
class PassesOverSteps final : public ForwardingFileOps {
 public:
  explicit PassesOverSteps(std::string_view kept)
      : ForwardingFileOps(posix_file_ops()), kept_(kept) {}
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    Result<std::vector<DirectoryName>> names = ForwardingFileOps::list_names(path);
    if (names.ok() && list_count++ < 2)
      std::erase_if(*names, [&](const DirectoryName& name) {
        return parse_step_name(name.name) && name.name != kept_;
      });
    return names;
  }

  int list_count = 0;

 private:
  std::string_view kept_;
};

TEST(CatalogTest, a_list_that_lacks_what_latest_leads_to_is_made_again) {
  const TempDir dir;
  for (const std::uint64_t step : {1U, 2U})
    write_built_step(posix_file_ops(), dir.path(), small_step(step, step));
  fs::create_symlink(step_name(2), dir.file("latest"));
  for (const std::string& kept : {std::string(), step_name(1)}) {
    PassesOverSteps ops(kept);
    const Result<Catalog> catalog = list_checkpoints(opened(dir.path()).with(ops));
    ASSERT_TRUE(catalog.ok()) << catalog.status().message();
    EXPECT_EQ(ops.list_count, 3);
    EXPECT_EQ(catalog->steps.size(), 2U);
  }
}

TEST(CatalogTest, a_latest_that_leads_nowhere_does_not_keep_a_list_from_its_end) {
  const TempDir dir;
  fs::create_symlink(step_name(2), dir.file("latest"));
  const Result<Catalog> none = list_checkpoints(opened(dir.path()));
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE(none->steps.empty());
  write_built_step(posix_file_ops(), dir.path(), small_step(1, 1));
  EXPECT_EQ(list_checkpoints(opened(dir.path()))->steps.size(), 1U);
}

TEST(CatalogTest, any_single_failure_is_reported_or_names_the_step) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(1, 1));
  fs::create_symlink(step_name(1), dir.file("latest"));
  int fault_count = 0;
  for (;; ++fault_count) {
    FaultyFileOps ops(posix_file_ops(), fault_count, EIO);
    const Result<Catalog> catalog = list_checkpoints(opened(dir.path()).with(ops));
    if (!ops.fired()) break;
    // What only the cache is asked for may fail: the manifest is read then.
    const bool is_for_cache = fault_count == 1 || fault_count == 2;
    if (is_for_cache) {
      ASSERT_TRUE(catalog.ok()) << ops.failed_op();
      EXPECT_EQ(catalog->newest(), &catalog->steps[0]) << ops.failed_op();
    } else {
      EXPECT_TRUE(!catalog.ok() || !catalog->steps[0].problem.ok()) << ops.failed_op();
    }
  }
  EXPECT_EQ(fault_count, 5);  // the list; open the cache, look at the manifest; open it; read_link
}

BuiltStep float_step(std::uint64_t step, std::vector<float> values) {
  BuiltStep built{.step = step, .generation = step, .ranks = {{}}};
  if (step > 1) built.parent = CheckpointParent{step - 1, step - 1};
  built.ranks[0] = {{.name = "w",
                     .type = TensorType::f32,
                     .shape = {values.size()},
                     .bytes = float_bytes(values)}};
  return built;
}

class RestoreChoiceTest : public ::testing::Test {
 protected:
  RestoreChoiceTest() {
    write_built_step(posix_file_ops(), dir_.path(), float_step(1, {1, 2, INFINITY}));
    write_built_step(posix_file_ops(), dir_.path(), float_step(2, {1, 3, INFINITY}));
    write_built_step(posix_file_ops(), dir_.path(), float_step(3, {1, NAN, INFINITY}));
  }

  Result<RestoreChoice> choose(const std::string& name = "", bool finite = false) {
    return choose_checkpoint({.directory = opened(dir_.path()),
                              .name = name,
                              .finite = finite,
                              .reader = plain_reader()},
                             [&](const CheckpointReader& reader) {
                               tried_.push_back(reader.manifest().step);
                               return reader.read({.name = "w", .memory = memory_});
                             });
  }
  void spoil(std::uint64_t step) const {
    const std::string path = dir_.file(step_name(step) + "/rank-00000.safetensors");
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(4096);
    file.put('!');
  }

  const TempDir dir_;
  std::byte memory_[12];
  std::vector<std::uint64_t> tried_;
};

TEST_F(RestoreChoiceTest, takes_the_newest_that_holds_and_reports_the_others) {
  EXPECT_EQ(choose()->name, step_name(3));
  spoil(3);
  fs::remove(dir_.file(step_name(2) + "/rank-00000.safetensors"));
  fs::create_directory(dir_.file(step_name(9)));
  const Result<RestoreChoice> choice = choose();
  ASSERT_TRUE(choice.ok()) << choice.status().message();
  EXPECT_EQ(choice->name, step_name(1));
  ASSERT_EQ(choice->passed_over.size(), 3U);
  EXPECT_EQ(choice->passed_over[0].name, step_name(9));
  EXPECT_EQ(choice->passed_over[1].name, step_name(3));
  EXPECT_NE(choice->passed_over[1].reason.message().find("offset 0"), std::string::npos);
  EXPECT_EQ(choice->passed_over[2].name, step_name(2));
  spoil(1);
  EXPECT_EQ(choose().status().code(), Code::corrupt);
}

TEST_F(RestoreChoiceTest, takes_a_named_one_or_none) {
  fs::rename(dir_.file(step_name(1)), dir_.file(superseded_name(1, 1)));
  EXPECT_EQ(choose(superseded_name(1, 1))->name, superseded_name(1, 1));
  EXPECT_EQ(choose(step_name(2))->name, step_name(2));
  EXPECT_EQ(choose(step_name(1)).status().code(), Code::not_found);
  spoil(2);
  EXPECT_EQ(choose(step_name(2)).status().code(), Code::corrupt);
}

TEST_F(RestoreChoiceTest, finite_takes_the_newest_without_new_values_that_are_not) {
  const Result<RestoreChoice> choice = choose("", /*finite=*/true);
  EXPECT_EQ(choice->name, step_name(2)) << "its infinity was there before";
  EXPECT_EQ(choice->passed_over.size(), 1U);
}

TEST_F(RestoreChoiceTest, an_empty_directory_has_nothing_to_restore) {
  const TempDir empty;
  const Result<RestoreChoice> choice = choose_checkpoint(
      {.directory = opened(empty.path())}, [](const CheckpointReader&) { return Status(); });
  ASSERT_TRUE(choice.ok());
  EXPECT_TRUE(choice->name.empty());
}

TEST_F(RestoreChoiceTest, a_failure_that_is_no_damage_ends_it) {
  const Result<RestoreChoice> choice =
      choose_checkpoint({.directory = opened(dir_.path()), .reader = plain_reader()},
                        [](const CheckpointReader&) { return Status(Code::cancelled, "enough"); });
  EXPECT_EQ(choice.status().code(), Code::cancelled);
}

}  // namespace
}  // namespace stoker::testing
