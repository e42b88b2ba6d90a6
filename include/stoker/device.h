/// \file
/// CUDA devices: the streams and the memory that a program lends to saves and restores, and copies
/// of batches.
///
/// Nothing here needs CUDA to compile or link. Handles are those of the driver and of the runtime:
/// a CUstream or cudaStream_t is the `handle` of a DeviceStream. Stoker loads the driver
/// (libcuda.so.1, CUDA 12.0 or newer) when a device is first used, uses the primary contexts that
/// the program has made, and makes none.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

class Batch;
namespace internal {
class DeviceFeedInside;
}

/// A queue of work on a device, as its driver calls it: for CUDA a CUstream, null for the default.
struct DeviceStream {
  std::int32_t device = 0;
  void* handle = nullptr;
};

/// Memory of a device. `owner` is released when it is no longer used, by any thread.
struct DeviceMemory {
  std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  std::shared_ptr<void> owner = {};
};

/// Returns memory for a snapshot of a device's tensors, `size_bytes` of it or less; nothing if
/// there is none.
using LendMemory = std::function<DeviceMemory(std::int32_t device, std::uint64_t size_bytes)>;

/// What the caller of a save has on devices.
struct DeviceUse {
  /// The caller's streams. The save reads a device's tensors after the work that these have at the
  /// time of the call, and before work that they get after it has returned.
  std::vector<DeviceStream> streams = {};
  /// Called by the thread that called save(), before that returns, with what this rank stores on
  /// the device. Empty: no snapshot is taken.
  LendMemory snapshot_memory = {};
};

/// Returns OK if tensors on CUDA devices can be saved and restored here, otherwise why not:
/// `unsupported` without a driver, with one that is too old, or without a GPU. Loads and
/// initializes the driver; creates no context.
STOKER_API Status check_devices();

/// Returns memory for snapshots that is allocated with the driver, for programs without an
/// allocator of their own: at most `most_bytes` on each device, and never more than half of what is
/// free there. It is freed when the snapshot has left the device. Nothing is lent if the driver
/// refuses, and the save goes through the host. Fails as check_devices() does.
STOKER_API Result<LendMemory> make_snapshot_memory(std::uint64_t most_bytes);

/// The copies of one batch to a device. Copies of the object refer to the same.
///
/// Thread safety: every method from any thread. It may outlive its feed.
class STOKER_API BatchCopy {
 public:
  /// What `stream` gets from now on waits for the copies; the host does not. Fails if any work of
  /// the device has.
  Status delay(const DeviceStream& stream) const;

 private:
  friend class DeviceFeed;
  class [[gnu::visibility("hidden")]] Impl;
  explicit BatchCopy(std::shared_ptr<const Impl> impl);
  std::shared_ptr<const Impl> impl_;
};

/// Copies batches of a Loader to memory of a device, ahead of their use. The loader puts its arrays
/// into memory that the device reads (LoaderOptions::feed), so they are copied once, and the host
/// never waits:
///
///     STOKER_ASSIGN(auto feed, stoker::DeviceFeed::open({.device = 0, .handle = copies}));
///     STOKER_ASSIGN(auto loader, stoker::Loader::open({..., .feed = feed}));
///     ...
///     STOKER_TRY(feed->follow(training));  // which has read `address` before
///     STOKER_ASSIGN(auto copy, feed->send(*batch, {{address, batch->find("x")->data}}));
///     STOKER_TRY(copy.delay(training));    // then enqueue what reads it
///
/// After a failure of the driver every later call fails, and host memory whose copies are not known
/// to have ended is never used again.
///
/// Thread safety: every method from any thread. In a forked child send() and follow() return
/// `unsupported`, and the destructor does nothing. Otherwise it waits for the copies.
class STOKER_API DeviceFeed {
 public:
  /// Bytes of a batch, or any others, and the address on the device that they go to.
  struct Piece {
    std::uintptr_t to = 0;
    std::span<const std::byte> from = {};
  };
  struct Stats {
    std::uint64_t copies = 0;  ///< Batches that have arrived.
    std::uint64_t bytes = 0;
    std::chrono::nanoseconds busy{0};  ///< Time in which there was something to copy.
  };

  /// `stream` is where copies are enqueued: one of the program, beside that of the training, which
  /// outlives the feed. Starts a thread. Fails as check_devices() does, and with
  /// `invalid_argument` if the program has not used the device yet.
  static Result<std::shared_ptr<DeviceFeed>> open(const DeviceStream& stream);
  DeviceFeed(const DeviceFeed&) = delete;
  DeviceFeed& operator=(const DeviceFeed&) = delete;
  ~DeviceFeed();

  /// Copies that are sent from now on wait for the work that `stream` has now: for what uses the
  /// memory they are written to. `invalid_argument` if it captures a CUDA graph.
  Status follow(const DeviceStream& stream);
  /// Enqueues copies, and returns. The batch's arrays are gone then, as after
  /// Batch::release_arrays(): their memory goes back to the loader when the copies have ended.
  /// Bytes that are not in the batch's arrays are copied before the call returns.
  /// `invalid_argument` if the batch has no arrays, or no longer.
  Result<BatchCopy> send(Batch& batch, const std::vector<Piece>& pieces);

  /// Why memory could not be pinned, which makes copies slower; OK if none was refused.
  Status memory_failure() const;
  Stats stats() const;

 private:
  friend class internal::DeviceFeedInside;
  class [[gnu::visibility("hidden")]] Impl;
  explicit DeviceFeed(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace stoker
