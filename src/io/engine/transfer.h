#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "io/engine/engine.h"

namespace stoker {

/// Where one Request stands. Engines feed it raw results, and it says whether to go on: the one
/// place that knows how short counts, EINTR, EAGAIN and the end of a file are told apart.
///
/// Thread safety: none.
class Transfer {
 public:
  /// Bytes one system call is asked for at most; the kernel itself stops just short of 2 GiB.
  static constexpr std::size_t kCallBytesMax = std::size_t{1} << 30;
  static constexpr std::size_t kPiecesMax = 1024;  ///< IOV_MAX.
  /// Fruitless attempts in a row before the error is believed.
  static constexpr int kRetriesMax = 1000;

  Transfer() = default;
  explicit Transfer(const Request& request) : request_(request), size_(request.size_bytes()) {}

  const Request& request() const noexcept { return request_; }

  /// What the next system call shall move: `buffer()`, or `pieces()` of a vectored request.
  std::uint64_t offset_bytes() const noexcept { return request_.offset_bytes + moved_; }
  std::span<std::byte> buffer() const noexcept;
  std::span<const iovec> pieces();

  /// Takes the raw result of that call, bytes or a negative errno. False: issue another call.
  /// True: it is over, and completion() tells how.
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
  std::vector<iovec> rest_;  // the pieces still to move, once some have been
};

/// One system call's worth of `transfer`: for engines that call instead of queueing.
std::int64_t call_once(Transfer& transfer);

}  // namespace stoker
