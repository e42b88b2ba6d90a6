#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu/cuda_device.h"
#include "gpu/event_pool.h"
#include "gpu/pinned_memory.h"
#include "io/engine/buffer_pool.h"
#include "stoker/status.h"

namespace stoker {

/// Copies batches from pinned host memory to a device, ahead of their use and on a stream of its
/// own. A batch's host memory is leased until an event behind its copies has completed, which a
/// thread waits for; whoever uses the batch makes its stream wait for the same event. The host
/// never waits.
///
/// After a failure of the driver, or for lack of memory, every later call fails with it, and host
/// memory whose copies are not known to have ended is never used again.
///
/// Thread safety: every method from any thread.
class CudaFeed {
 public:
  struct Piece {
    CudaPointer to = 0;
    std::span<const std::byte> from;
  };

  /// The copies of one batch.
  ///
  /// Thread safety: every method from any thread. It may outlive the feed.
  class Copy {
   public:
    ~Copy() { events_->give_back(std::move(event_)); }
    Copy(const Copy&) = delete;
    Copy& operator=(const Copy&) = delete;

    /// What `stream` gets from now on waits for the copies. Fails if any work of the device has.
    Status delay(CudaStream stream) const;

   private:
    friend class CudaFeed;
    Copy(std::unique_ptr<OwnedCudaEvent> event, std::shared_ptr<CudaEventPool> events)
        : event_(std::move(event)), events_(std::move(events)) {}
    std::unique_ptr<OwnedCudaEvent> event_;
    const std::shared_ptr<CudaEventPool> events_;
  };

  struct Stats {
    std::uint64_t copies = 0;  ///< Batches that have arrived.
    std::uint64_t bytes = 0;
    nanoseconds busy{0};  ///< Time in which there was something to copy.
  };

  /// `stream` is where copies are enqueued; the caller's, who also allocates on it, and keeps it
  /// alive. Starts the thread.
  static Result<std::unique_ptr<CudaFeed>> make(std::shared_ptr<const CudaDevice> device,
                                                CudaStream stream);
  CudaFeed(const CudaFeed&) = delete;
  CudaFeed& operator=(const CudaFeed&) = delete;
  /// Waits for the copies. In a forked child it does nothing.
  ~CudaFeed();

  /// Makes the memory to lease for batches. It is pinned at the first copy from it.
  ArenaMaker memory();

  /// Copies that are sent from now on wait for the work that `stream` has now. `invalid_argument`
  /// if it captures a CUDA graph.
  Status follow(CudaStream stream);

  /// Enqueues the copies of one batch, from memory in `batch` or anywhere else; the latter is
  /// copied before the call returns. The lease ends when all of them have.
  Result<std::shared_ptr<const Copy>> send(std::span<const Piece> pieces, Lease batch);

  /// Why copies are slow, or fail; OK otherwise.
  Status memory_failure() const { return pinned_->failure(); }
  Status failure() const;
  Stats stats() const;

 private:
  /// Host memory in use by copies, until they have ended.
  struct Sent {
    std::shared_ptr<const Copy> copy;
    Lease batch;
    std::vector<std::byte> others;
    std::uint64_t size_bytes = 0;
    Deadline since{};
  };
  using SentList = std::list<Sent>;  // moves its elements between lists without allocating
  struct State;
  struct Lost;
  explicit CudaFeed(std::unique_ptr<State> state);

  const std::shared_ptr<PinnedMemory> pinned_ = PinnedMemory::make();
  std::unique_ptr<State> state_;
};

}  // namespace stoker
