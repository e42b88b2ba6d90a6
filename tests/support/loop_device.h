#pragma once

#include <fcntl.h>
#include <linux/loop.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <utility>

#include "base/unique_fd.h"

namespace stoker::testing {

/// A block device over a file, free again with its last user, whatever happens.
///
/// Thread safety: none.
class LoopDevice {
 public:
  LoopDevice() = default;
  /// `flags` are LO_FLAGS_*.
  explicit LoopDevice(int image_fd, std::uint32_t flags = 0) {
    const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    // Another process may take the number that we were told: ask again.
    for (int attempt = 0; attempt < kAttempts && control.get() >= 0; ++attempt) {
      const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
      const std::string name = "/dev/loop" + std::to_string(number);
      UniqueFd device(::open(name.c_str(), O_RDWR | O_CLOEXEC));
      if (device.get() < 0) return;
      loop_config config{};
      config.fd = static_cast<__u32>(image_fd);
      config.info.lo_flags = LO_FLAGS_AUTOCLEAR | flags;
      if (::ioctl(device.get(), LOOP_CONFIGURE, &config) != 0) continue;
      device_ = std::move(device);
      name_ = name;
      return;
    }
  }

  /// Whether there is a device: not in containers, nor for ordinary users.
  bool is_there() const { return device_.get() >= 0; }
  const std::string& name() const { return name_; }
  int fd() const { return device_.get(); }

 private:
  static constexpr int kAttempts = 20;

  UniqueFd device_;
  std::string name_;
};

}  // namespace stoker::testing
