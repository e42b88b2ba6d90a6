/// \file
/// RangeSource: what ranges of files or objects are read from, many at a time. A store of one's own
/// may have one (stoker/store.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

class Object;  // stoker/store.h

enum class Op : std::uint8_t { read, write, fsync, fdatasync };

/// One transfer. Plain data; the source copies it.
struct Request {
  static constexpr int kNoSlot = -1;

  Op op = Op::read;
  int fd = -1;
  int file_slot = kNoSlot;  ///< Of an engine's registered files; `fd` must be set as well.
  /// The object to read, for sources of stores without descriptors; engines ignore it.
  const Object* object = nullptr;
  std::uint64_t offset_bytes = 0;
  std::span<std::byte> buffer = {};  ///< Borrowed until its Completion is reaped.
  /// Scatter or gather: used instead of `buffer` when not empty. The array and the memory it points
  /// to are borrowed. Useful when adjacent small parts of a file have different destinations.
  std::span<const std::span<std::byte>> pieces = {};
  std::uint32_t align_bytes = 1;  ///< Alignment of offsets for an O_DIRECT descriptor.
  bool dont_cache = false;        ///< RWF_DONTCACHE, for files that support it.
  std::uint64_t tag = 0;          ///< Returned unchanged in the Completion.

  std::size_t size_bytes() const noexcept {
    std::size_t total = buffer.size();
    if (!pieces.empty()) total = 0;
    for (const std::span<std::byte> piece : pieces) total += piece.size();
    return total;
  }
};

struct Completion {
  std::uint64_t tag = 0;
  /// Bytes moved, or a negative errno. Fewer bytes than requested mean that a read reached the end
  /// of the file: the source itself retries after short counts, EINTR and EAGAIN. fsync is never
  /// retried: its first result is final.
  std::int64_t result = 0;
  /// What a failure was, in words, if the source knows more than the errno: for messages.
  Status failure = {};
};

/// Reads ranges into memory, many at a time. Submission and completion are separate, so that one
/// thread can keep depth_max() requests in flight. An engine is the source for local files; other
/// stores have their own, or that of ObjectStore::make_source().
///
/// The source of a store reads `object`, `offset_bytes`, `buffer` or `pieces`, and `tag` of a
/// Request, whose `op` is always `read`; the other fields are for descriptors. It reports a failure
/// as the errno that describes it best: EACCES, ENOENT, ESTALE for an object that was replaced,
/// ETIMEDOUT, EIO, and may tell more in `failure`. What it throws ends the call that needed the
/// bytes, as for ObjectStore.
///
/// Thread safety: none. A source is made, used and destroyed by one thread.
class STOKER_API RangeSource {
 public:
  /// Waits for every request in flight, because their buffers are borrowed.
  virtual ~RangeSource() = default;

  /// Returns the maximum number of requests in flight.
  virtual std::uint32_t depth_max() const noexcept = 0;

  /// Accepts a prefix of `requests` and returns its length. A short count means that the queue is
  /// full: reap, then submit the rest. Does not wait for transfers, except that a synchronous
  /// source performs them here.
  virtual Result<std::size_t> submit(std::span<const Request> requests) = 0;

  /// Fills a prefix of `out` and returns its length. Waits until `count_min` requests have
  /// completed, nothing is in flight, or `timeout` has passed. A short count is not an error.
  virtual Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                                   std::chrono::nanoseconds timeout) = 0;

  /// Returns the number of accepted requests whose completions reap() has not returned yet.
  virtual std::size_t in_flight() const noexcept = 0;

  /// Asks the source to stop the requests with this tag. Each still completes exactly once: with
  /// -ECANCELED if it was stopped in time, as usual otherwise. A source whose requests end soon by
  /// themselves may do nothing.
  virtual Status cancel(std::uint64_t tag) = 0;
};

}  // namespace stoker
