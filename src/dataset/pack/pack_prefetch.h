#pragma once

#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "dataset/input/input.h"
#include "stoker/status.h"

namespace stoker {

/// Reads samples in a given order, several at a time, because opening small files one after the
/// other leaves every storage idle. What has been read and not yet taken is bounded in number and
/// bytes. Memory goes round: what next() is given is used for a later sample.
///
/// Thread safety: next() from one thread.
class SamplePrefetch {
 public:
  /// `source` and `samples` outlive it. No threads: next() reads by itself.
  SamplePrefetch(const PackInput& source, std::span<const std::uint64_t> samples,
                 unsigned thread_count);
  SamplePrefetch(const SamplePrefetch&) = delete;
  SamplePrefetch& operator=(const SamplePrefetch&) = delete;
  ~SamplePrefetch();

  /// The next sample; called at most as often as there are samples.
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

  const PackInput& source_;
  const std::span<const std::uint64_t> samples_;
  Mutex mutex_;
  Condition has_room_;    // readers wait for it
  Condition has_sample_;  // next() does
  std::vector<Slot> slots_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t begun_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t taken_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t held_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  unsigned idle_readers_ STOKER_GUARDED_BY(mutex_) = 0;
  bool is_awaited_ STOKER_GUARDED_BY(mutex_) = false;  // next() waits for sample taken_
  bool stop_ STOKER_GUARDED_BY(mutex_) = false;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace stoker
