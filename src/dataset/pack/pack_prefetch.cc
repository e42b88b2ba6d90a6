#include "dataset/pack/pack_prefetch.h"

#include <utility>

namespace stoker {
namespace {

constexpr std::uint64_t kHeldBytesMax = std::uint64_t{64} << 20;
constexpr std::size_t kSlotsPerThread = 4;
/// Maximum memory of a taken sample that is kept for reuse; more is freed at once.
constexpr std::size_t kKeptBytesMax = std::size_t{4} << 20;

void keep_little(InputSample& sample) {
  std::size_t kept = 0;
  for (const FileMemory& file : sample.files) kept += file.capacity_bytes();
  if (kept > kKeptBytesMax) sample.files.clear();
}

}  // namespace

SamplePrefetch::SamplePrefetch(const PackInput& input, std::span<const std::uint64_t> samples,
                               unsigned thread_count)
    : input_(input), samples_(samples), slots_(thread_count * kSlotsPerThread) {
  for (unsigned i = 0; i < thread_count; ++i) threads_.emplace_back([this] { work(); });
}

SamplePrefetch::~SamplePrefetch() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  has_room_.notify_all();
}

/// One sample is always allowed, of any size.
bool SamplePrefetch::may_read(std::uint64_t size_bytes) const {
  return begun_ - taken_ < slots_.size() &&
         (begun_ == taken_ || held_bytes_ + size_bytes <= kHeldBytesMax);
}

/// Only when at least half of the slots are free: waking a thread costs as much as reading a small
/// file.
bool SamplePrefetch::should_wake_readers() const {
  return idle_readers_ != 0 && (begun_ - taken_) * 2 <= slots_.size();
}

void SamplePrefetch::work() {
  for (;;) {
    std::uint64_t number = 0;
    Slot* slot = nullptr;
    {
      MutexLock lock(mutex_);
      for (;;) {
        if (stop_ || begun_ == samples_.size()) return;
        const Result<PackInput::Extent> extent = input_.extent(samples_[begun_]);
        const std::uint64_t size_bytes =
            extent.ok() ? extent->size_bytes : 0;  // read() then returns the error
        if (may_read(size_bytes)) {
          number = begun_++;
          slot = &slots_[number % slots_.size()];
          slot->size_bytes = size_bytes;
          held_bytes_ += size_bytes;
          break;
        }
        ++idle_readers_;
        has_room_.wait(mutex_);
        --idle_readers_;
      }
    }
    // Only this thread uses the slot until it is ready.
    Status status = input_.read(samples_[number], slot->sample);
    bool is_awaited = false;
    {
      MutexLock lock(mutex_);
      slot->status = std::move(status);
      slot->is_ready = true;
      is_awaited = is_awaited_ && number == taken_;
    }
    if (is_awaited) has_sample_.notify_one();
  }
}

Status SamplePrefetch::next(InputSample& out) {
  if (threads_.empty()) {
    std::uint64_t number = 0;
    {
      MutexLock lock(mutex_);
      number = taken_++;
    }
    return input_.read(samples_[number], out);
  }
  keep_little(out);
  Status status;
  bool wake_readers = false;
  {
    MutexLock lock(mutex_);
    Slot& slot = slots_[taken_ % slots_.size()];
    is_awaited_ = true;
    while (!slot.is_ready) has_sample_.wait(mutex_);
    is_awaited_ = false;
    std::swap(out, slot.sample);
    status = std::exchange(slot.status, {});
    slot.is_ready = false;
    held_bytes_ -= slot.size_bytes;
    ++taken_;
    wake_readers = should_wake_readers();
  }
  if (wake_readers) has_room_.notify_all();
  return status;
}

}  // namespace stoker
