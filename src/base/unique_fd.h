#pragma once

#include <unistd.h>

#include <cerrno>
#include <utility>

#include "stoker/status.h"

namespace stoker {

/// Owns one file descriptor.
///
/// The destructor closes but cannot report errors. Code that wrote through the descriptor must call
/// `std::move(fd).close()` and check the result: NFS and quota errors may appear only there.
///
/// Thread safety: none; the owner provides it.
class UniqueFd {
 public:
  UniqueFd() noexcept = default;
  explicit UniqueFd(int fd) noexcept : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd other) noexcept {
    std::swap(fd_, other.fd_);  // `other` is a copy: its destructor closes the old descriptor
    return *this;
  }
  ~UniqueFd() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }
  /// Transfers ownership of the descriptor to the caller.
  [[nodiscard]] int release() noexcept { return std::exchange(fd_, -1); }

  Status close() && {
    // Not retried on EINTR: Linux has released the number, and another thread may have reused it.
    if (::close(std::exchange(fd_, -1)) == 0 || errno == EINTR) return {};
    return Status::from_errno(errno, "close", "");
  }

 private:
  int fd_ = -1;
};

}  // namespace stoker
