#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/clock.h"
#include "stoker/status.h"

namespace stoker {

class Object;  // store/object_store.h

enum class Op : std::uint8_t { read, write, fsync, fdatasync };

/// One transfer. Plain data: the caller fills it, the source copies it.
struct Request {
  static constexpr int kNoSlot = -1;

  Op op = Op::read;
  int fd = -1;
  int file_slot = kNoSlot;  ///< From Engine::register_file; `fd` must be given as well.
  /// What a store's source reads from where there is no descriptor; engines do not look at it.
  const Object* object = nullptr;
  std::uint64_t offset_bytes = 0;
  std::span<std::byte> buffer = {};  ///< Borrowed until its Completion is reaped.
  /// Scatter or gather: used instead of `buffer` when not empty. The array and what it points to
  /// are borrowed. Pays when many small neighbours of a file belong in different places.
  std::span<const iovec> pieces = {};
  std::uint32_t align_bytes = 1;  ///< Of offsets, for a descriptor opened with O_DIRECT.
  bool dont_cache = false;        ///< RWF_DONTCACHE; ask File whether this file takes it.
  std::uint64_t tag = 0;          ///< Returned unchanged in the Completion.

  std::size_t size_bytes() const noexcept {
    std::size_t total = buffer.size();
    if (!pieces.empty()) total = 0;
    for (const iovec& piece : pieces) total += piece.iov_len;
    return total;
  }
};

struct Completion {
  std::uint64_t tag = 0;
  /// Bytes moved, or a negative errno. Fewer bytes than asked for mean that a read met the end of
  /// the file: short counts, EINTR and EAGAIN are continued inside the source. fsync is never
  /// repeated: whatever the first one said is final.
  std::int64_t result = 0;
};

/// Brings ranges into memory, many at a time. Submission and completion are separate so that one
/// thread keeps depth_max() requests in flight. An Engine does it for local files; a store of
/// another kind, or the path to a device, does it for its own. RangeReader drives all of them.
///
/// Thread safety: none. A source is made, used and destroyed by one thread.
class RangeSource {
 public:
  /// Waits for every request in flight, because buffers are borrowed.
  virtual ~RangeSource() = default;

  /// Requests in flight at most.
  virtual std::uint32_t depth_max() const noexcept = 0;

  /// Accepts a prefix of `requests` and returns its length. A short count means the queue is full:
  /// reap, then submit the rest. Never waits for a transfer (a synchronous source performs it).
  virtual Result<std::size_t> submit(std::span<const Request> requests) = 0;

  /// Fills a prefix of `out` and returns its length, waiting until `count_min` are there, nothing
  /// is in flight, or `timeout` has passed. A short count is not an error.
  virtual Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                                   nanoseconds timeout) = 0;

  /// Requests accepted whose completions have not been handed out by reap().
  virtual std::size_t in_flight() const noexcept = 0;

  /// Asks for the requests with this tag to be stopped. Each still completes exactly once: with
  /// -ECANCELED if it was stopped in time, as usual otherwise.
  virtual Status cancel(std::uint64_t tag) = 0;
};

}  // namespace stoker
