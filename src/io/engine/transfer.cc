#include "io/engine/transfer.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "io/engine/kernel_api.h"

namespace stoker {

std::span<std::byte> Transfer::buffer() const noexcept {
  const auto rest = request_.buffer.subspan(moved_);
  return rest.first(std::min(rest.size(), kCallBytesMax));
}

std::span<const iovec> Transfer::pieces() {
  rest_.clear();
  std::size_t skip = moved_;
  for (const std::span<std::byte> piece : request_.pieces) {
    if (rest_.size() == kPiecesMax) break;
    if (skip < piece.size()) rest_.push_back({piece.data() + skip, piece.size() - skip});
    skip -= std::min(skip, piece.size());
  }
  return rest_;
}

bool Transfer::advance(std::int64_t raw) {
  const bool is_sync = request_.op == Op::fsync || request_.op == Op::fdatasync;
  if (is_sync) return finish(raw);  // its result is final: the kernel reports a loss only once
  if (raw == -EINTR || raw == -EAGAIN) return retry(raw);
  if (raw < 0) return finish(raw);
  const bool is_read = request_.op == Op::read;
  if (raw == 0 && moved_ < size_)
    return is_read ? finish(static_cast<std::int64_t>(moved_)) : finish(-EIO);

  moved_ = std::min(moved_ + static_cast<std::size_t>(raw), size_);
  if (moved_ == size_) return finish(static_cast<std::int64_t>(moved_));
  const std::size_t beyond = moved_ % request_.align_bytes;
  if (beyond == 0) {
    retries_ = 0;
    return false;
  }
  // O_DIRECT cannot continue inside a block. A read that stops there has reached the end of the
  // file; a write is resumed at the start of that block.
  if (is_read) return finish(static_cast<std::int64_t>(moved_));
  moved_ -= beyond;
  return retry(-EIO);
}

std::int64_t call_once(Transfer& transfer) {
  const Request& request = transfer.request();
  if (request.op == Op::fsync) return ::fsync(request.fd) == 0 ? 0 : -errno;
  if (request.op == Op::fdatasync) return ::fdatasync(request.fd) == 0 ? 0 : -errno;

  const auto offset = static_cast<off_t>(transfer.offset_bytes());
  const int flags = request.dont_cache ? kRwfDontCache : 0;
  if (request.pieces.empty() && flags == 0) {  // the shorter path through the kernel
    const std::span<std::byte> buffer = transfer.buffer();
    const ssize_t n = request.op == Op::read
                          ? ::pread(request.fd, buffer.data(), buffer.size(), offset)
                          : ::pwrite(request.fd, buffer.data(), buffer.size(), offset);
    return n < 0 ? -errno : n;
  }
  iovec whole{};
  std::span<const iovec> pieces(&whole, 1);
  if (request.pieces.empty()) {
    const std::span<std::byte> buffer = transfer.buffer();
    whole = {buffer.data(), buffer.size()};
  } else {
    pieces = transfer.pieces();
  }
  const int count = static_cast<int>(pieces.size());
  const ssize_t n = request.op == Op::read
                        ? ::preadv2(request.fd, pieces.data(), count, offset, flags)
                        : ::pwritev2(request.fd, pieces.data(), count, offset, flags);
  return n < 0 ? -errno : n;
}

}  // namespace stoker
