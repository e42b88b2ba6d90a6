#pragma once

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/loop.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/unique_fd.h"
#include "support/loop_device.h"

extern char** environ;

namespace stoker::testing {

/// A block device of our own with an ext4 on it: a loop device over an image. It can vanish while
/// it is mounted, as a disk does whose cable is pulled: every transfer then fails with EIO.
///
/// Thread safety: none.
class LoopDisk {
 public:
  LoopDisk(const std::string& image, off_t size_bytes) {
    image_ = UniqueFd(::open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    if (::ftruncate(image_.get(), size_bytes) != 0 || !make_filesystem(image)) return;
    device_ = LoopDevice(image_.get());
  }

  /// Whether there is a device: not in containers, nor for ordinary users.
  bool is_there() const { return device_.is_there(); }
  const std::string& name() const { return device_.name(); }

  /// From now on the device ends before its first byte.
  bool vanish() {
    // A write that is under way makes the image longer again: until none came between.
    std::uint64_t left_bytes = 1;
    while (left_bytes > 0) {
      if (::ftruncate(image_.get(), 0) != 0) return false;
      if (::ioctl(device_.fd(), LOOP_SET_CAPACITY, 0) != 0) return false;
      if (::ioctl(device_.fd(), BLKGETSIZE64, &left_bytes) != 0) return false;
    }
    return true;
  }

 private:
  static bool make_filesystem(const std::string& image) {
    std::string program = "mkfs.ext4";
    std::string quiet = "-q";
    std::string path = image;
    char* const args[] = {program.data(), quiet.data(), path.data(), nullptr};
    pid_t child = -1;
    int status = -1;
    return ::posix_spawnp(&child, program.c_str(), nullptr, nullptr, args, environ) == 0 &&
           ::waitpid(child, &status, 0) == child && status == 0;
  }

  UniqueFd image_;
  LoopDevice device_;
};

}  // namespace stoker::testing
