#include "dataset/pack_prefetch.h"

#include <utility>

namespace stoker {
namespace {

constexpr std::uint64_t kHeldBytesMax = std::uint64_t{64} << 20;
constexpr std::size_t kSlotsPerThread = 4;

}  // namespace

SamplePrefetch::SamplePrefetch(const SampleSource& source, std::span<const std::uint64_t> samples,
                               unsigned thread_count)
    : source_(source), samples_(samples), slots_(thread_count * kSlotsPerThread) {
  for (unsigned i = 0; i < thread_count; ++i) threads_.emplace_back([this] { work(); });
}

SamplePrefetch::~SamplePrefetch() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
}

/// One sample is always allowed, however large.
bool SamplePrefetch::may_read(std::uint64_t size_bytes) const {
  return begun_ - taken_ < slots_.size() &&
         (begun_ == taken_ || held_bytes_ + size_bytes <= kHeldBytesMax);
}

void SamplePrefetch::work() {
  for (;;) {
    std::uint64_t number = 0;
    std::uint64_t size_bytes = 0;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (stop_ || begun_ == samples_.size()) return;
        const Result<SampleSource::Extent> extent = source_.extent(samples_[begun_]);
        size_bytes = extent.ok() ? extent->size_bytes : 0;  // read() reports what is wrong
        if (may_read(size_bytes)) break;
        changed_.wait(mutex_);
      }
      number = begun_++;
      held_bytes_ += size_bytes;
    }
    SourceSample sample;
    Status status = source_.read(samples_[number], sample);
    {
      MutexLock lock(mutex_);
      Slot& slot = slots_[number % slots_.size()];
      slot = {.is_ready = true,
              .status = std::move(status),
              .sample = std::move(sample),
              .size_bytes = size_bytes};
    }
    changed_.notify_all();
  }
}

Status SamplePrefetch::next(SourceSample& out) {
  if (threads_.empty()) {
    std::uint64_t number = 0;
    {
      MutexLock lock(mutex_);
      number = taken_++;
    }
    return source_.read(samples_[number], out);
  }
  Status status;
  {
    MutexLock lock(mutex_);
    Slot& slot = slots_[taken_ % slots_.size()];
    while (!slot.is_ready) changed_.wait(mutex_);
    std::swap(out, slot.sample);
    status = std::exchange(slot.status, {});
    slot.is_ready = false;
    held_bytes_ -= slot.size_bytes;
    ++taken_;
  }
  changed_.notify_all();
  return status;
}

}  // namespace stoker
