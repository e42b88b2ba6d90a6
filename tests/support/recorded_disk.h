#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "stoker/status.h"
#include "support/disk_tape.h"
#include "support/fuse_file.h"
#include "support/loop_device.h"
#include "support/temp_dir.h"

/// Skips the test where a disk could not be made for want of something, and fails it otherwise.
#define SKIP_UNLESS_SUPPORTED(disk)                                  \
  do {                                                               \
    if (!(disk).ok() && (disk).status().code() == Code::unsupported) \
      GTEST_SKIP() << (disk).status().message();                     \
    ASSERT_TRUE((disk).ok()) << (disk).status().message();           \
  } while (false)

namespace stoker::testing {

/// A filesystem as small as its own tools make it.
struct FilesystemKind {
  std::string name;
  std::uint64_t size_bytes = 0;
  std::vector<std::string> mkfs;  ///< The command; the image comes last.

  static FilesystemKind ext4(std::uint64_t size_bytes = std::uint64_t{48} << 20);
  static FilesystemKind xfs();
  static FilesystemKind btrfs();
};

/// Gives the process mounts of its own, which end with it. `unsupported` for ordinary users.
Status enter_private_mounts();

/// A real filesystem on a loop device over a FuseFile: every block write and every barrier that the
/// kernel makes is on the tape, and the disk can be put back to any state of it.
///
/// Thread safety: none. To be made before any thread is started.
class RecordedDisk {
 public:
  /// `unsupported` where something is missing, and what: /dev/fuse, loop devices, root, mkfs.
  static Result<std::unique_ptr<RecordedDisk>> make(const FilesystemKind& kind);
  RecordedDisk(const RecordedDisk&) = delete;
  RecordedDisk& operator=(const RecordedDisk&) = delete;
  ~RecordedDisk();

  /// To be changed only while it is not mounted.
  DiskTape& tape() { return tape_; }
  const std::string& filesystem() const { return kind_.name; }
  std::string mount_point() const { return dir_.file("mounted"); }

  Status mount();
  /// The kernel forgets all that it has read.
  Status unmount();

  /// Once, while it is not mounted: the disk without the tape under it, which is many times faster.
  Status stop_recording();

 private:
  explicit RecordedDisk(const FilesystemKind& kind);
  Status format();
  Status attach();

  FilesystemKind kind_;
  TempDir dir_;
  DiskTape tape_;
  std::unique_ptr<FuseFile> served_;
  LoopDevice device_;
  bool is_mounted_ = false;
};

}  // namespace stoker::testing
