#pragma once

#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dataset/input/input.h"
#include "stoker/status.h"

namespace stoker {

/// Reads samples in a given order, several at a time, because opening small files one by one leaves
/// storage idle. The number and bytes of samples that were read but not taken are bounded. Memory
/// is recycled: the memory of the sample passed to next() is used for a later sample.
///
/// Thread safety: next() from one thread.
class SamplePrefetch {
 public:
  /// `input` and `samples` must outlive the object. If `thread_count` is 0, next() reads itself.
  SamplePrefetch(const PackInput& input, std::span<const std::uint64_t> samples,
                 unsigned thread_count);
  SamplePrefetch(const SamplePrefetch&) = delete;
  SamplePrefetch& operator=(const SamplePrefetch&) = delete;
  ~SamplePrefetch();

  /// Returns the next sample in `out`. Must not be called more often than there are samples.
  Status next(InputSample& out);

 private:
  struct Slot {
    bool is_ready = false;
    Status status = {};
    InputSample sample = {};
    std::uint64_t size_bytes = 0;
  };

  void work();
  bool may_read(std::uint64_t size_bytes) const STOKER_REQUIRES(mutex_);
  bool should_wake_readers() const STOKER_REQUIRES(mutex_);

  const PackInput& input_;
  const std::span<const std::uint64_t> samples_;
  Mutex mutex_;
  Condition has_room_;    // readers wait for room
  Condition has_sample_;  // next() waits for a sample
  std::vector<Slot> slots_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t begun_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t taken_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t held_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  unsigned idle_readers_ STOKER_GUARDED_BY(mutex_) = 0;
  bool is_awaited_ STOKER_GUARDED_BY(mutex_) = false;  // next() waits for sample taken_
  bool stop_ STOKER_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: the threads use the members above
};

}  // namespace stoker
