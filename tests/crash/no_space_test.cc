// A filesystem that is full after any 4 KiB of a save, or after any name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "checkpoint/manifest/names.h"
#include "crash/recorded_cut.h"

namespace stoker::testing {
namespace {

constexpr std::uint64_t kBlockBytes = 4096;

CrashSaver::Note noting(CutPoint& point) {
  return [&point](const std::string& mark) { point.marks.push_back(mark); };
}

Status save_one(const CheckpointPlace& place, CutPoint& point, const SavedStep& saved,
                const CrashSaver::Options& options) {
  CrashSaver saver(place, noting(point), options);
  const Status status = saver.save(saved);
  static_cast<void>(saver.close());  // says the same
  return status;
}

/// What a save that ran out of room must not leave: it would take room from the next one.
std::string left_over(const CheckpointPlace& place) {
  const Result<std::vector<std::string>> names = place.ops.list(place.directory);
  if (!names.ok()) return std::string(names.status().message());
  for (const std::string& name : *names)
    if (is_owner_name(name) || is_trash_name(name) || is_epoch_claim_name(name) ||
        name == step_name(20))
      return name;
  return "";
}

/// Saves step 20 where there is little room: it is committed, or it says that there is none and has
/// left nothing behind. Says whether it was committed.
bool save_with_little_room(const CheckpointPlace& place, CutPoint& point, bool is_room_checked) {
  const Status status =
      save_one(place, point, {.step = 20}, {.token = "second", .is_room_checked = is_room_checked});
  if (status.ok()) return true;
  EXPECT_EQ(status.code(), Code::no_space) << status.message();
  EXPECT_NE(status.message().find(place.directory), std::string_view::npos) << status.message();
  EXPECT_EQ(left_over(place), "") << status.message();
  return false;
}

/// A tmpfs of 4 KiB blocks whose size and number of names can be changed.
class SmallTmpfs {
 public:
  SmallTmpfs() {
    is_mounted_ = ::mount("stoker-small", dir_.path().c_str(), "tmpfs", 0, kRoomy) == 0;
  }
  SmallTmpfs(const SmallTmpfs&) = delete;
  SmallTmpfs& operator=(const SmallTmpfs&) = delete;
  ~SmallTmpfs() {
    if (is_mounted_) ::umount2(dir_.path().c_str(), MNT_DETACH);
  }

  bool is_there() const { return is_mounted_; }
  CheckpointPlace place() const {
    return {.ops = posix_file_ops(),
            .engine = [] { return make_sync_engine({}); },
            .directory = dir_.file("checkpoints"),
            .value_count = 20'000};
  }
  /// So much more than is in use.
  void leave_blocks(std::uint64_t count) const {
    struct statvfs now = {};
    ASSERT_EQ(::statvfs(dir_.path().c_str(), &now), 0);
    const std::uint64_t used = (now.f_blocks - now.f_bfree) * now.f_frsize;
    change("size=" + std::to_string(used + count * kBlockBytes));
  }
  void leave_names(std::uint64_t count) const {
    struct statvfs now = {};
    ASSERT_EQ(::statvfs(dir_.path().c_str(), &now), 0);
    change("nr_inodes=" + std::to_string(now.f_files - now.f_ffree + count));
  }
  void leave_enough() const { change(kRoomy); }

 private:
  static constexpr const char* kRoomy = "size=16m,nr_inodes=1000";

  void change(const std::string& options) const {
    ASSERT_EQ(::mount(nullptr, dir_.path().c_str(), nullptr, MS_REMOUNT, options.c_str()), 0)
        << options;
  }

  TempDir dir_;
  bool is_mounted_ = false;
};

/// Narrows a fresh tmpfs by ever less until the save fits, and says how often it did not.
int sweep_tmpfs(void (SmallTmpfs::*narrow)(std::uint64_t) const, bool is_room_checked) {
  int failed = 0;
  for (std::uint64_t count = 0;; ++count) {
    SCOPED_TRACE("left: " + std::to_string(count));
    const SmallTmpfs disk;
    EXPECT_TRUE(disk.is_there());
    CutPoint point;
    EXPECT_TRUE(save_one(disk.place(), point, {.step = 10}, {}).ok());
    (disk.*narrow)(count);
    const bool is_saved = save_with_little_room(disk.place(), point, is_room_checked);
    disk.leave_enough();
    EXPECT_EQ(checkpoints_hold_in(disk.place(), point), "");
    if (is_saved || ::testing::Test::HasFailure()) return failed;
    ++failed;
  }
}

TEST(NoSpaceTest, a_tmpfs_full_after_any_block_fails_the_save_and_nothing_else) {
  const Status is_private = enter_private_mounts();
  if (!is_private.ok()) GTEST_SKIP() << is_private.message();
  const int failed = sweep_tmpfs(&SmallTmpfs::leave_blocks, false);
  EXPECT_GT(failed, 20) << "a save of 80 kB has more blocks than that";
  RecordProperty("sizes", failed);
}

TEST(NoSpaceTest, a_tmpfs_too_small_is_found_before_the_copy) {
  const Status is_private = enter_private_mounts();
  if (!is_private.ok()) GTEST_SKIP() << is_private.message();
  EXPECT_GT(sweep_tmpfs(&SmallTmpfs::leave_blocks, true), 20);
}

TEST(NoSpaceTest, a_tmpfs_without_names_fails_the_save_and_nothing_else) {
  const Status is_private = enter_private_mounts();
  if (!is_private.ok()) GTEST_SKIP() << is_private.message();
  EXPECT_GT(sweep_tmpfs(&SmallTmpfs::leave_names, false), 2);
}

/// Takes all free blocks but this number.
bool fill_but(const std::string& directory, std::uint64_t count) {
  const UniqueFd ballast(
      ::open((directory + "/ballast").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  off_t size = 0;
  for (;;) {  // again: the file's own map takes blocks too
    ::fsync(ballast.get());
    struct statvfs now = {};
    if (::statvfs(directory.c_str(), &now) != 0) return false;
    if (now.f_bavail <= count) return true;
    const auto more = static_cast<off_t>((now.f_bavail - count + 1) / 2 * kBlockBytes);
    if (::posix_fallocate(ballast.get(), size, more) != 0) return false;
    size += more;
  }
}

TEST(NoSpaceTest, an_ext4_full_after_any_block_fails_the_save_and_nothing_else) {
  const Result<std::unique_ptr<RecordedDisk>> made = RecordedDisk::make(FilesystemKind::ext4());
  SKIP_UNLESS_SUPPORTED(made);
  RecordedDisk& disk = **made;
  ASSERT_TRUE(disk.stop_recording().ok());
  CutPoint first;
  ASSERT_TRUE(disk.mount().ok());
  ASSERT_TRUE(save_one(place_on(disk), first, {.step = 10}, {}).ok());
  ASSERT_TRUE(disk.unmount().ok());
  disk.tape().keep();
  const std::uint64_t stride = is_long_run() ? 1 : 4;
  int failed = 0;
  for (std::uint64_t count = 0; !HasFailure(); count += stride) {
    SCOPED_TRACE("blocks left: " + std::to_string(count));
    ASSERT_TRUE(disk.mount().ok());
    CutPoint point = first;
    ASSERT_TRUE(fill_but(disk.mount_point(), count));
    const bool is_saved = save_with_little_room(place_on(disk), point, false);
    ASSERT_EQ(::unlink((disk.mount_point() + "/ballast").c_str()), 0);
    EXPECT_EQ(checkpoints_hold_in(place_on(disk), point), "");
    ASSERT_TRUE(disk.unmount().ok());
    disk.tape().undo();
    if (is_saved) break;
    ++failed;
  }
  EXPECT_GT(failed, 20 / static_cast<int>(stride));
  RecordProperty("sizes", failed);
}

}  // namespace
}  // namespace stoker::testing
