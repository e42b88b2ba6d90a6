#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "io/files/file.h"
#include "stoker/store.h"

namespace stoker {
namespace {

/// The errno that describes a failure best.
int errno_of(const Status& status) {
  if (status.os_error() != 0) return status.os_error();
  switch (status.code()) {
    case Code::not_found: return ENOENT;
    case Code::denied: return EACCES;
    case Code::unavailable: return ETIMEDOUT;
    case Code::invalid_argument: return EINVAL;
    case Code::cancelled: return ECANCELED;
    default: return EIO;
  }
}

/// Reads with Object::read() as requests are submitted.
///
/// Thread safety: none.
class BlockingSource final : public RangeSource {
 public:
  explicit BlockingSource(std::uint32_t depth) : depth_(std::max(depth, 1U)) {}

  std::uint32_t depth_max() const noexcept override { return depth_; }
  Result<std::size_t> submit(std::span<const Request> requests) override {
    const std::size_t count = std::min<std::size_t>(requests.size(), depth_ - done_.size());
    for (const Request& request : requests.first(count)) {
      const Result<std::size_t> moved = read(request);
      const std::int64_t result =
          moved.ok() ? static_cast<std::int64_t>(*moved) : -errno_of(moved.status());
      done_.push_back({.tag = request.tag, .result = result, .failure = moved.status()});
    }
    return count;
  }
  Result<std::size_t> reap(std::span<Completion> out, std::size_t /*count_min*/,
                           nanoseconds /*timeout*/) override {
    const std::size_t count = std::min(out.size(), done_.size());
    for (Completion& completion : out.first(count)) {
      completion = std::move(done_.front());
      done_.pop_front();
    }
    return count;
  }
  std::size_t in_flight() const noexcept override { return done_.size(); }
  Status cancel(std::uint64_t /*tag*/) override { return {}; }

 private:
  Result<std::size_t> read(const Request& request) {
    const Object& object = *request.object;
    const std::size_t size_bytes = request.size_bytes();
    std::span<std::byte> into = request.buffer;
    if (!request.pieces.empty() ||
        object.scratch_bytes(request.offset_bytes, size_bytes) > size_bytes) {
      scratch_.resize(object.scratch_bytes(request.offset_bytes, size_bytes));
      into = scratch_;
    }
    STOKER_ASSIGN(const std::span<std::byte> bytes,
                  object.read(request.offset_bytes, size_bytes, into));
    copy(bytes, request);
    return bytes.size();
  }
  static void copy(std::span<const std::byte> bytes, const Request& request) {
    if (request.pieces.empty()) {
      if (!bytes.empty() && bytes.data() != request.buffer.data())
        std::memcpy(request.buffer.data(), bytes.data(), bytes.size());
      return;
    }
    for (const std::span<std::byte> piece : request.pieces) {
      const std::size_t count = std::min(piece.size(), bytes.size());
      if (count > 0) std::memcpy(piece.data(), bytes.data(), count);
      bytes = bytes.subspan(count);
    }
  }

  const std::uint32_t depth_;
  std::deque<Completion> done_;
  std::vector<std::byte> scratch_;
};

}  // namespace

Request request_of(const Object& object, std::uint64_t offset_bytes, std::span<std::byte> buffer) {
  const File* const file = object.file();
  return {.op = Op::read,
          .fd = file == nullptr ? -1 : file->buffered_fd(),
          .object = &object,
          .offset_bytes = offset_bytes,
          .buffer = buffer};
}

Result<std::unique_ptr<RangeSource>> ObjectStore::make_source(std::uint32_t depth) {
  return std::unique_ptr<RangeSource>(std::make_unique<BlockingSource>(depth));
}

}  // namespace stoker
