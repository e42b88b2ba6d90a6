#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>
#include <vector>

#include "io/engine/engine.h"

namespace stoker {

/// The progress of one Request. An engine passes it the raw result of each system call, and it
/// decides whether another call is needed. All handling of short counts, EINTR, EAGAIN and the end
/// of a file is here.
///
/// Thread safety: none.
class Transfer {
 public:
  /// Maximum bytes per system call; the kernel itself stops just short of 2 GiB.
  static constexpr std::size_t kCallBytesMax = std::size_t{1} << 30;
  static constexpr std::size_t kPiecesMax = 1024;  ///< IOV_MAX.
  /// Maximum number of consecutive attempts without progress before the error is reported.
  static constexpr int kRetriesMax = 1000;

  Transfer() = default;
  explicit Transfer(const Request& request) : request_(request), size_(request.size_bytes()) {}

  const Request& request() const noexcept { return request_; }

  /// The arguments of the next system call: `buffer()`, or `pieces()` for a vectored request.
  std::uint64_t offset_bytes() const noexcept { return request_.offset_bytes + moved_; }
  std::span<std::byte> buffer() const noexcept;
  std::span<const iovec> pieces();

  /// Takes the raw result of that call, bytes or a negative errno. Returns false if another call is
  /// needed, and true if the transfer has ended; completion() is then valid.
  bool advance(std::int64_t raw);

  Completion completion() const noexcept { return {.tag = request_.tag, .result = result_}; }

 private:
  bool finish(std::int64_t result) noexcept {
    result_ = result;
    return true;
  }
  bool retry(std::int64_t error) noexcept { return ++retries_ > kRetriesMax && finish(error); }

  Request request_;
  std::size_t size_ = 0;
  std::size_t moved_ = 0;
  int retries_ = 0;
  std::int64_t result_ = 0;
  std::vector<iovec> rest_;  // the pieces left to move, for the next call
};

/// Issues one system call for `transfer` and returns its raw result. For engines without a queue.
std::int64_t call_once(Transfer& transfer);

}  // namespace stoker
