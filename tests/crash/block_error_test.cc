// A block that cannot be written under a real filesystem. The kernel says so once, in a write or an
// fsync, and a second fsync would be told that all is well.
#include <gtest/gtest.h>

#include <iostream>

#include "crash/recorded_cut.h"
#include "io/files/forwarding_file_ops.h"

namespace stoker::testing {
namespace {

/// What a disk with one bad moment came to.
struct Counts {
  int faults = 0;        ///< Moments tried.
  int failed_saves = 0;  ///< Saves that were told of theirs.
  int next_saves = 0;    ///< Of the saves after those, in the same mount, that went well.
  int borne = 0;         ///< Faults that the filesystem got over: a second copy, another way.

  void record(const std::string& filesystem) const {
    std::cout << filesystem << ": " << faults << " faults, " << failed_saves << " saves failed, "
              << next_saves << " next saves in the same mount, " << borne
              << " faults that the filesystem got over\n";
    ::testing::Test::RecordProperty("faults", faults);
    ::testing::Test::RecordProperty("failed_saves", failed_saves);
  }
};

CrashSaver::Note noting(CutPoint& point) {
  return [&point](const std::string& mark) { point.marks.push_back(mark); };
}

/// Saves step 10, and makes that the disk to which each fault comes.
CutPoint save_first(RecordedDisk& disk) {
  CutPoint point;
  EXPECT_TRUE(disk.mount().ok());
  {
    CrashSaver saver(place_on(disk), noting(point), {});
    EXPECT_TRUE(saver.save({.step = 10}).ok());
    EXPECT_TRUE(saver.close().ok());
  }
  EXPECT_TRUE(disk.unmount().ok());
  disk.tape().keep();
  return point;
}

struct Fault {
  bool is_flush = false;
  int after = 0;  ///< So many writes or flushes that go well.
  CachePolicy policy = CachePolicy::buffered;

  std::string text() const {
    return (is_flush ? "flush " : "write ") + std::to_string(after) +
           (policy == CachePolicy::direct ? ", direct" : ", buffered");
  }
};

struct Outcome {
  bool is_hit = false;  ///< The save made that number of writes or flushes.
  Status first = {};    ///< Of the save that met the fault,
  Status next = {};     ///< and of the one after it, in the same mount.
  std::string wrong;    ///< After a remount.
};

/// Saves step 20 with one fault and step 30 without, and looks at what is there after a remount.
Outcome save_with(const Fault& fault, RecordedDisk& disk, CutPoint point, FileOps& ops) {
  Outcome outcome;
  EXPECT_TRUE(disk.mount().ok());
  CheckpointPlace place = place_on(disk, ops);
  place.engine = {};
  {
    CrashSaver saver(place, noting(point), {.policy = fault.policy});
    fault.is_flush ? disk.tape().fail_flush(fault.after) : disk.tape().fail_write(fault.after);
    outcome.first = saver.save({.step = 20});
    static_cast<void>(saver.close());  // says the same
  }
  outcome.is_hit = disk.tape().failed_count() > 0;
  disk.tape().heal();
  {
    CrashSaver saver(place, noting(point), {.token = "next-one"});
    outcome.next = saver.save({.step = 30});
    static_cast<void>(saver.close());
  }
  EXPECT_TRUE(disk.unmount().ok());
  const Status again = disk.mount();
  EXPECT_TRUE(again.ok()) << again.message();
  outcome.wrong = checkpoints_hold_in(place_on(disk), point);
  EXPECT_TRUE(disk.unmount().ok());
  disk.tape().undo();
  return outcome;
}

class BlockErrorTest : public ::testing::TestWithParam<FilesystemKind> {
 protected:
  /// False once the save has come to its end before the fault.
  static bool face(const Fault& fault, RecordedDisk& disk, const CutPoint& point, Counts& counts) {
    SCOPED_TRACE(disk.filesystem() + ": " + fault.text());
    const Outcome outcome = save_with(fault, disk, point, posix_file_ops());
    EXPECT_EQ(outcome.wrong, "") << outcome.first.message();
    if (!outcome.is_hit) {
      EXPECT_TRUE(outcome.first.ok()) << outcome.first.message();
      return false;
    }
    ++counts.faults;
    if (outcome.first.ok()) {
      ++counts.borne;
      return true;
    }
    ++counts.failed_saves;
    counts.next_saves += outcome.next.ok() ? 1 : 0;
    EXPECT_NE(outcome.first.message().find(disk.mount_point()), std::string_view::npos)
        << "names no file: " << outcome.first.message();
    return true;
  }
};

TEST_P(BlockErrorTest, any_block_that_fails_once_fails_its_save_and_harms_no_other) {
  const Result<std::unique_ptr<RecordedDisk>> disk = RecordedDisk::make(GetParam());
  SKIP_UNLESS_SUPPORTED(disk);
  const CutPoint point = save_first(**disk);
  Counts counts;
  const int stride = is_long_run() ? 1 : 7;
  for (const CachePolicy policy : {CachePolicy::buffered, CachePolicy::direct})
    for (const bool is_flush : {false, true})
      for (Fault fault{is_flush, 0, policy}; face(fault, **disk, point, counts);)
        fault.after += stride;
  EXPECT_GT(counts.failed_saves, 5);
  EXPECT_GT(counts.next_saves, 0);
  counts.record(GetParam().name);
}

TEST_P(BlockErrorTest, a_disk_that_fails_for_good_commits_nothing_more_and_keeps_what_it_has) {
  const Result<std::unique_ptr<RecordedDisk>> disk = RecordedDisk::make(GetParam());
  SKIP_UNLESS_SUPPORTED(disk);
  const CutPoint before = save_first(**disk);
  int moment_count = 0;
  bool is_hit = true;
  for (int after = 0; is_hit; after += is_long_run() ? 1 : 3, ++moment_count) {
    SCOPED_TRACE("after " + std::to_string(after) + " writes");
    CutPoint point = before;
    ASSERT_TRUE((*disk)->mount().ok());
    CheckpointPlace place = place_on(**disk);
    place.engine = {};
    {
      CrashSaver saver(place, noting(point), {});
      (*disk)->tape().break_down(after);
      static_cast<void>(saver.save({.step = 20}));  // may have been committed before
      is_hit = (*disk)->tape().failed_count() > 0;
      for (const std::uint64_t step : {30U, 40U}) {
        const bool was_broken = (*disk)->tape().failed_count() > 0;
        EXPECT_FALSE(saver.save({.step = step}).ok() && was_broken) << "step " << step;
      }
      static_cast<void>(saver.close());
    }
    // It stays so until the end: nothing that the kernel has kept gets there later.
    static_cast<void>((*disk)->unmount());
    (*disk)->tape().heal();
    const Status mounted = (*disk)->mount();
    ASSERT_TRUE(mounted.ok()) << mounted.message();
    EXPECT_EQ(checkpoints_hold_in(place_on(**disk), point), "");
    ASSERT_TRUE((*disk)->unmount().ok());
    (*disk)->tape().undo();
  }
  std::cout << GetParam().name << ": broke down after any of " << moment_count << " writes\n";
  RecordProperty("moments", moment_count);
  EXPECT_GT(moment_count, 2);
}

/// Takes no notice of a sync that failed: so would whoever tries it again.
class DeafFileOps final : public ForwardingFileOps {
 public:
  using ForwardingFileOps::ForwardingFileOps;

  Status fdatasync(int fd) override { return hear_nothing(target().fdatasync(fd)); }
  Status fsync(int fd) override { return hear_nothing(target().fsync(fd)); }
  Status fsync_dir(const PathAt& path) override { return hear_nothing(target().fsync_dir(path)); }

 private:
  static Status hear_nothing(const Status&) { return {}; }
};

TEST(BlockErrorMutantTest, a_save_that_takes_no_notice_of_a_failed_sync_is_found_out) {
  const Result<std::unique_ptr<RecordedDisk>> disk = RecordedDisk::make(FilesystemKind::ext4());
  SKIP_UNLESS_SUPPORTED(disk);
  const CutPoint point = save_first(**disk);
  DeafFileOps deaf(posix_file_ops());
  Outcome outcome;
  for (Fault fault; outcome.wrong.empty(); ++fault.after) {
    outcome = save_with(fault, **disk, point, deaf);
    ASSERT_TRUE(outcome.is_hit) << "nothing was found";
  }
}

INSTANTIATE_TEST_SUITE_P(all, BlockErrorTest,
                         ::testing::Values(FilesystemKind::ext4(), FilesystemKind::xfs(),
                                           FilesystemKind::btrfs()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace stoker::testing
