#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "stoker/status.h"

namespace stoker {

/// Owns one file descriptor.
///
/// The destructor closes but cannot report. Code that wrote through the descriptor calls
/// `std::move(fd).close()` and checks it: NFS and quota errors may surface only there.
///
/// Thread safety: none; the owner provides it.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd other) noexcept {
    std::swap(fd_, other.fd_);  // by value: `other` closes what this held
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// It is the caller's from now on.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  Status close() && {
    // Not retried on EINTR: Linux has released the number by then, and another thread may own it.
    if (::close(std::exchange(fd_, -1)) == 0 || errno == EINTR) return {};
    return Status::from_errno(errno, "close", "");
  }

 private:
  int fd_ = -1;
};

}  // namespace stoker
