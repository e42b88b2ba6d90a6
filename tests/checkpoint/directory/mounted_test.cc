// Something is mounted inside a checkpoint: it is not part of it, and nothing of it is removed.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/save_support.h"
#include "io/files/directories.h"
#include "io/files/open_below.h"
#include "support/recorded_disk.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

/// A directory of the same filesystem, mounted at `place`.
class BindMount {
 public:
  BindMount(const std::string& what, const std::string& place) : place_(place) {
    fs::create_directories(what);
    fs::create_directories(place);
    is_mounted_ = ::mount(what.c_str(), place.c_str(), nullptr, MS_BIND, nullptr) == 0;
  }
  BindMount(const BindMount&) = delete;
  BindMount& operator=(const BindMount&) = delete;
  ~BindMount() {
    // It may have moved along with the checkpoint; the test's own mounts end with the process.
    if (is_mounted_) ::umount2(place_.c_str(), MNT_DETACH);
  }
  bool is_mounted() const { return is_mounted_; }

 private:
  std::string place_;
  bool is_mounted_ = false;
};

class MountedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status is_private = enter_private_mounts();
    if (!is_private.ok()) GTEST_SKIP() << is_private.message();
    fs::create_directories(dir_.file("precious/folder"));
    std::ofstream(dir_.file("precious/file")) << "kept";
    std::ofstream(dir_.file("precious/folder/file")) << "kept too";
  }
  void expect_precious() const {
    EXPECT_EQ(contents_of(dir_.file("precious/file")), "kept");
    EXPECT_EQ(contents_of(dir_.file("precious/folder/file")), "kept too");
  }
  static Status save(CheckpointSaver& saver, std::uint64_t step) {
    const Result<PendingSave> pending = saver.save(request_of(step, {counted("w", 50, 1)}));
    return pending.ok() ? pending->wait() : pending.status();
  }

  const TempDir dir_;
};

TEST_F(MountedTest, retention_reports_what_is_mounted_in_a_checkpoint_and_leaves_it) {
  const std::string run = dir_.file("run");
  SaverOptions options = quiet_options(run);
  const auto saver = make_saver(options);
  for (const std::uint64_t step : {1U, 2U, 3U}) ASSERT_TRUE(save(*saver, step).ok());
  ASSERT_TRUE(saver->close().ok());
  const BindMount mount(dir_.file("precious"), run + "/" + step_name(1) + "/eval");
  ASSERT_TRUE(mount.is_mounted());

  options.parent = CheckpointParent{.step = 3, .generation = 3};
  options.retention.keep_last = 1;
  const auto pruning = make_saver(std::move(options));
  EXPECT_TRUE(save(*pruning, 4).ok());
  const Status status = pruning->wait();  // blocks are freed behind the acknowledgement
  EXPECT_NE(status.message().find("eval: something is mounted there"), std::string_view::npos)
      << status.message();
  expect_precious();
  const Result<Catalog> catalog = list_checkpoints(opened(run));
  ASSERT_TRUE(catalog.ok());
  ASSERT_EQ(catalog->steps.size(), 1U) << "the others are removed";
  EXPECT_EQ(catalog->steps[0].parsed.step, 4U);
  std::size_t left = 0;  // of all files of the removed checkpoints
  for (const auto& item : fs::recursive_directory_iterator(run))
    left += item.path().filename() == kManifestName ? 1 : 0;
  EXPECT_EQ(left, 1U);
  static_cast<void>(pruning->close());
  expect_precious();

  // The next writer's sweep meets it again.
  const auto next = make_saver(quiet_options(run));
  EXPECT_TRUE(save(*next, 5).ok());
  expect_precious();
}

TEST_F(MountedTest, remove_tree_removes_all_but_what_is_mounted) {
  fs::create_directories(dir_.file("tree/folder"));
  std::ofstream(dir_.file("tree/zz")) << "goes";
  const BindMount mount(dir_.file("precious"), dir_.file("tree/folder/here"));
  ASSERT_TRUE(mount.is_mounted());
  const Status removed = remove_tree(posix_file_ops(), dir_.file("tree"));
  EXPECT_EQ(removed.os_error(), EBUSY);
  EXPECT_NE(removed.message().find("here: something is mounted"), std::string_view::npos)
      << removed.message();
  expect_precious();
  EXPECT_FALSE(fs::exists(dir_.file("tree/zz")));
}

TEST_F(MountedTest, remove_tree_says_so_of_an_empty_mount_and_of_the_tree_itself) {
  const BindMount empty(dir_.file("nothing"), dir_.file("tree"));
  ASSERT_TRUE(empty.is_mounted());
  EXPECT_EQ(remove_tree(posix_file_ops(), dir_.file("tree")).os_error(), EBUSY);
  const BindMount whole(dir_.file("precious"), dir_.file("other"));
  ASSERT_TRUE(whole.is_mounted());
  EXPECT_EQ(remove_tree(posix_file_ops(), dir_.file("other")).os_error(), EBUSY);
  expect_precious();
}

TEST_F(MountedTest, both_ways_of_looking_up_stay_on_their_mount_when_told) {
  const BindMount mount(dir_.file("precious"), dir_.file("tree/here"));
  ASSERT_TRUE(mount.is_mounted());
  const UniqueFd root(::open(dir_.file("tree").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  for (const LookupBelow lookup : {LookupBelow::automatic, LookupBelow::by_components}) {
    for (const char* name : {"here", "here/folder", "here/file"}) {
      EXPECT_TRUE(open_below(root.get(), name, O_PATH, lookup).ok()) << name;
      EXPECT_EQ(open_below(root.get(), name, O_PATH, lookup, Mounts::stay).status().os_error(),
                EXDEV)
          << name;
    }
  }
}

}  // namespace
}  // namespace stoker::testing
