#include "checkpoint/device/device_copier.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/device/chunk_filler.h"
#include "checkpoint/device/device_digests.h"
#include "checkpoint/device/device_lane.h"
#include "checkpoint/staging/tensor_copy.h"

namespace stoker {
namespace {

/// More bytes in host memory than this are copied by several threads.
constexpr std::uint64_t kManyHostBytes = std::uint64_t{16} << 20;

/// A stream of the caller's, with an event behind the work that it had when the save began.
struct CallersStream {
  DeviceLane* lane = nullptr;
  CudaStream stream = nullptr;
  std::unique_ptr<OwnedCudaEvent> ready;
};

/// A copy on the device, from which a save is filled after save() has returned; without memories,
/// what is filled from the tensors themselves.
struct Snapshot {
  std::vector<TensorSource> sources;  // one for each tensor
  std::vector<DeviceMemory> memories;
  std::vector<std::pair<DeviceLane*, std::unique_ptr<OwnedCudaEvent>>> taken;
  std::vector<DeviceLane*> lanes;  // that copy to or from it, or instead of it
  // Of a save through a ring, which has no places for what is copied now:
  std::vector<SaveTensor> tensors;    // all, those in host memory in `host_bytes`
  std::vector<std::byte> host_bytes;  // at most one chunk
};

std::uint64_t host_bytes_of(std::span<const SaveTensor> tensors) {
  std::uint64_t total = 0;
  for (const SaveTensor& tensor : tensors) {
    if (tensor.device != kHostMemory) continue;
    const Result<std::uint64_t> size = tensor_bytes(tensor.type, tensor.shape);
    total += size.ok() ? *size : 0;
  }
  return total;
}

/// Ends a save for which a device has not answered in time: waits until it does nothing for the
/// save any more.
CopyRest end_late(const std::shared_ptr<Snapshot>& snapshot, const Status& why, Staging& staging) {
  AwaitLanes unless_made(snapshot->lanes);
  CopyRest rest = [snapshot, why] {
    const AwaitLanes all(snapshot->lanes);
    return why;
  };
  unless_made.dismiss();
  staging.fail(why);
  return rest;
}

class DeviceCopier final : public TensorCopier {
 public:
  explicit DeviceCopier(DeviceCopierOptions options)
      : options_(std::move(options)),
        host_(make_host_copier(options_.thread_count)),
        digests_(options_.memory, options_.thread_count) {}

  Status check(std::span<const SaveTensor> tensors) const override {
    for (const SaveTensor& tensor : tensors) {
      STOKER_TRY(check_has_data(tensor));
      if (tensor.device != kHostMemory && !tensor.strides_bytes.empty())
        return Status(Code::invalid_argument,
                      "tensor " + tensor.name + ": it is on a device, and not contiguous");
    }
    return {};
  }
  bool is_of_host_memory() const noexcept override { return true; }

  Status begin(std::span<const SaveTensor> tensors, const DeviceUse& use,
               Deadline deadline) override;
  Status copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              Staging& staging) override;
  Result<CopyRest> begin_copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                              Staging& staging) override;
  Result<CopyRest> copy_in_time(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                                Staging& staging);
  Result<std::vector<Digest128>> digests(std::span<const SaveTensor> tensors,
                                         CopyRest& late) override;

 private:
  Result<DeviceLane*> lane(std::int32_t device);
  Status note_stream(std::int32_t device, CudaStream stream);
  Status await_pinned(std::span<const SaveTensor> tensors) const;
  Status follow_callers(const DeviceLane& lane, CudaStream ours) const;
  Result<std::vector<TensorSource>> sources_of(std::span<const SaveTensor> tensors);
  Status prepare_host_copies(std::span<const TensorSource> sources, const Staging& staging) const;
  static void reserve(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                      const LendMemory& lend, Snapshot& snapshot);
  static bool hold_all(std::span<const SaveTensor> tensors, Snapshot& snapshot);
  Status take(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              Snapshot& snapshot) const;
  Status drain(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
               Staging& staging, Snapshot& snapshot) const;
  std::size_t threads_for(std::span<const SaveTensor> tensors) const;

  const DeviceCopierOptions options_;
  const std::shared_ptr<TensorCopier> host_;
  std::map<std::int32_t, std::unique_ptr<DeviceLane>> lanes_;
  DeviceDigests digests_;  // after lanes_: its events are theirs
  // Of the current save:
  std::vector<CallersStream> callers_;
  DeviceUse use_;
  Deadline deadline_ = Deadline::max();  // of begin_copy(), as begin() was told
};

Result<DeviceLane*> DeviceCopier::lane(std::int32_t device) {
  if (const auto found = lanes_.find(device); found != lanes_.end()) return found->second.get();
  STOKER_ASSIGN(const CudaDriver* const driver, options_.find_driver());
  STOKER_ASSIGN(std::unique_ptr<DeviceLane> made,
                DeviceLane::make(*driver, device, options_.may_gather));
  return lanes_.emplace(device, std::move(made)).first->second.get();
}

Status DeviceCopier::note_stream(std::int32_t device, CudaStream stream) {
  STOKER_ASSIGN(DeviceLane* const lane, this->lane(device));
  const CudaScope scope(*lane->device());
  STOKER_TRY(scope.status());
  STOKER_ASSIGN(const bool is_captured, lane->device()->driver().is_capturing(stream));
  if (is_captured)
    return Status(Code::invalid_argument,
                  "a CUDA graph is being captured on device " + std::to_string(device) +
                      ", and a save cannot be a part of it: save before or after the capture");
  STOKER_ASSIGN(std::unique_ptr<OwnedCudaEvent> ready, lane->events().take());
  STOKER_TRY(ready->record(stream));
  callers_.push_back({.lane = lane, .stream = stream, .ready = std::move(ready)});
  return {};
}

/// Copies into pinned memory may be in progress on the streams, unlike those into other memory.
Status DeviceCopier::await_pinned(std::span<const SaveTensor> tensors) const {
  if (callers_.empty()) return {};
  const CudaDriver& driver = callers_.front().lane->device()->driver();
  const auto is_pinned = [&](const SaveTensor& tensor) {
    unsigned type = 0;
    return tensor.device == kHostMemory && tensor.data != nullptr &&
           driver.pointer_get_attribute(&type, kCudaAttributeMemoryType,
                                        reinterpret_cast<CudaPointer>(tensor.data)) ==
               kCudaSuccess &&
           type == kCudaMemoryTypeHost;
  };
  const CudaScope scope(*callers_.front().lane->device());
  STOKER_TRY(scope.status());
  if (std::ranges::none_of(tensors, is_pinned)) return {};
  for (const CallersStream& callers : callers_) {
    const CudaScope other(*callers.lane->device());
    STOKER_TRY(other.status());
    STOKER_TRY(callers.ready->synchronize_until(deadline_));
  }
  return {};
}

Status DeviceCopier::begin(std::span<const SaveTensor> tensors, const DeviceUse& use,
                           Deadline deadline) {
  for (CallersStream& callers : callers_)
    callers.lane->events().give_back(std::move(callers.ready));
  callers_.clear();
  use_ = use;
  deadline_ = deadline;
  for (const auto& [device, lane] : lanes_)
    if (const Status failed = lane->gather_failure(); !failed.ok() && options_.gather_failed)
      options_.gather_failed(failed);
  for (const DeviceStream& stream : use.streams)
    STOKER_TRY(note_stream(stream.device, static_cast<CudaStream>(stream.handle)));
  for (const SaveTensor& tensor : tensors) {
    if (tensor.device == kHostMemory) continue;
    const bool is_known = std::ranges::any_of(callers_, [&](const CallersStream& callers) {
      return callers.lane->device()->ordinal() == tensor.device;
    });
    if (!is_known) STOKER_TRY(note_stream(tensor.device, nullptr));
  }
  return await_pinned(tensors);
}

/// What `ours` gets from now on follows the work that the caller's streams had.
Status DeviceCopier::follow_callers(const DeviceLane& lane, CudaStream ours) const {
  for (const CallersStream& callers : callers_)
    if (callers.lane == &lane) STOKER_TRY(callers.ready->delay(ours));
  return {};
}

Result<std::vector<TensorSource>> DeviceCopier::sources_of(std::span<const SaveTensor> tensors) {
  std::vector<TensorSource> sources(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].device == kHostMemory) continue;
    STOKER_ASSIGN(sources[i].lane, lane(tensors[i].device));
    sources[i].data = tensors[i].data;
  }
  return sources;
}

/// Pins the staging memory, and lets the streams to the host follow the caller's.
Status DeviceCopier::prepare_host_copies(std::span<const TensorSource> sources,
                                         const Staging& staging) const {
  for (const auto& [device, lane] : lanes_) {
    if (std::ranges::find(sources, lane.get(), &TensorSource::lane) == sources.end()) continue;
    const bool is_pinned = options_.memory->pin(staging.memory(), lane->device());
    const CudaScope scope(*lane->device());
    STOKER_TRY(scope.status());
    STOKER_TRY(follow_callers(*lane, lane->to_host()));
    if (!is_pinned) STOKER_TRY(lane->await_work(deadline_));
  }
  return {};
}

std::size_t DeviceCopier::threads_for(std::span<const SaveTensor> tensors) const {
  return host_bytes_of(tensors) > kManyHostBytes ? options_.thread_count : 1;
}

Status DeviceCopier::copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                          Staging& staging) {
  const auto is_on_host = [](const SaveTensor& tensor) { return tensor.device == kHostMemory; };
  if (std::ranges::all_of(tensors, is_on_host)) return host_->copy(layout, tensors, staging);
  STOKER_ASSIGN(const std::vector<TensorSource> sources, sources_of(tensors));
  STOKER_TRY(prepare_host_copies(sources, staging));
  return ChunkFiller(layout, tensors, sources, staging, Deadline::max())
      .fill_all(threads_for(tensors));
}

/// Like copy(), until the deadline.
Result<CopyRest> DeviceCopier::copy_in_time(const CheckpointLayout& layout,
                                            std::span<const SaveTensor> tensors, Staging& staging) {
  const auto all = std::make_shared<Snapshot>();
  STOKER_ASSIGN(all->sources, sources_of(tensors));
  STOKER_TRY(prepare_host_copies(all->sources, staging));
  ChunkFiller filler(layout, tensors, all->sources, staging, deadline_);
  all->lanes = filler.lanes();
  const Status filled = filler.fill_all(threads_for(tensors));
  if (filler.is_late()) return end_late(all, filled, staging);
  STOKER_TRY(filled);
  return CopyRest();
}

/// Gets memory on each device, and gives tensors places there in the order of the files, so that
/// those of a chunk leave the device as one copy.
void DeviceCopier::reserve(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                           const LendMemory& lend, Snapshot& snapshot) {
  std::map<std::int32_t, std::uint64_t> wanted;
  for (const LayoutFile& file : layout.files)
    for (const PlacedTensor& placed : file.tensors)
      if (const std::int32_t device = tensors[placed.tensor].device; device != kHostMemory)
        wanted[device] += placed.end_bytes - placed.begin_bytes;
  for (TensorSource& source : snapshot.sources) source.is_now = true;
  for (const auto& [device, size_bytes] : wanted) {
    if (size_bytes == 0) continue;
    DeviceMemory memory = lend(device, size_bytes);
    std::uint64_t used = 0;
    for (const LayoutFile& file : layout.files) {
      for (const PlacedTensor& placed : file.tensors) {
        const std::uint64_t size = placed.end_bytes - placed.begin_bytes;
        const bool fits = memory.data != nullptr && used + size <= memory.size_bytes;
        if (tensors[placed.tensor].device != device || !fits) continue;
        TensorSource& source = snapshot.sources[placed.tensor];
        source.data = memory.data + used;
        source.is_now = false;
        used += size;
      }
    }
    snapshot.memories.push_back(std::move(memory));
  }
}

/// After reserve(): also copies what is in host memory. Returns whether the snapshot has
/// everything.
bool DeviceCopier::hold_all(std::span<const SaveTensor> tensors, Snapshot& snapshot) {
  for (std::size_t i = 0; i < tensors.size(); ++i)
    if (tensors[i].device != kHostMemory && snapshot.sources[i].is_now) return false;
  snapshot.host_bytes.resize(host_bytes_of(tensors));
  snapshot.tensors.assign(tensors.begin(), tensors.end());
  std::span<std::byte> left = snapshot.host_bytes;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].device != kHostMemory) continue;
    const std::size_t size = host_bytes_of(tensors.subspan(i, 1));
    copy_tensor_bytes(tensors[i], 0, left.first(size));
    snapshot.tensors[i].data = left.data();
    snapshot.tensors[i].strides_bytes.clear();
    snapshot.sources[i].is_now = false;
    left = left.subspan(size);
  }
  return true;
}

/// Enqueues the copies on the devices, behind the work of the caller's streams, which then wait for
/// them.
Status DeviceCopier::take(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                          Snapshot& snapshot) const {
  for (const auto& [device, lane] : lanes_) {
    std::vector<DeviceCopy> copies;
    for (const LayoutFile& file : layout.files) {
      for (const PlacedTensor& placed : file.tensors) {
        const TensorSource& source = snapshot.sources[placed.tensor];
        const std::uint64_t size = placed.end_bytes - placed.begin_bytes;
        if (source.lane != lane.get() || source.is_now || size == 0) continue;
        copies.push_back({.from = reinterpret_cast<CudaPointer>(tensors[placed.tensor].data),
                          .to = const_cast<std::byte*>(source.data),
                          .size_bytes = size});
      }
    }
    if (copies.empty()) continue;
    const CudaScope scope(*lane->device());
    STOKER_TRY(scope.status());
    STOKER_ASSIGN(std::unique_ptr<OwnedCudaEvent> taken, lane->events().take());
    // Again, because the caller's allocator may have used the streams: torch can be told to fill
    // new memory.
    for (const CallersStream& callers : callers_)
      if (callers.lane == lane.get()) STOKER_TRY(callers.ready->record(callers.stream));
    STOKER_TRY(follow_callers(*lane, lane->on_device()));
    STOKER_TRY(lane->enqueue_on_device(copies));
    STOKER_TRY(taken->record(lane->on_device()));
    for (const CallersStream& callers : callers_)
      if (callers.lane == lane.get()) STOKER_TRY(taken->delay(callers.stream));
    snapshot.taken.emplace_back(lane.get(), std::move(taken));
  }
  return {};
}

/// Runs on another thread, while later saves may begin.
Status DeviceCopier::drain(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                           Staging& staging, Snapshot& snapshot) const {
  AwaitLanes unless_all_ended(snapshot.lanes);  // the memory of the snapshot is freed next
  const auto fill = [&]() -> Status {
    for (const auto& [lane, taken] : snapshot.taken) {
      options_.memory->pin(staging.memory(), lane->device());
      const CudaScope scope(*lane->device());
      STOKER_TRY(scope.status());
      STOKER_TRY(taken->delay(lane->to_host()));
    }
    // Without a deadline: at that of the save, the writer gives up, and leaves it to StuckWrites.
    return ChunkFiller(layout, tensors, snapshot.sources, staging, Deadline::max())
        .fill_all(/*thread_count=*/1);
  };
  Status filled = fill();
  if (!filled.ok()) return filled;
  unless_all_ended.dismiss();
  for (auto& [lane, taken] : snapshot.taken) lane->events().give_back(std::move(taken));
  return filled;
}

Result<CopyRest> DeviceCopier::begin_copy(const CheckpointLayout& layout,
                                          std::span<const SaveTensor> tensors, Staging& staging) {
  auto snapshot = std::make_shared<Snapshot>();
  // Not kept after this: what it refers to may be gone when save() has returned.
  const auto lend = std::exchange(use_.snapshot_memory, nullptr);
  const auto is_in_it = [](const TensorSource& source) { return !source.is_now; };
  const auto is_on_host = [](const SaveTensor& tensor) { return tensor.device == kHostMemory; };
  if (std::ranges::all_of(tensors, is_on_host)) {
    STOKER_TRY(host_->copy(layout, tensors, staging));
    return CopyRest();
  }
  if (lend && (!staging.is_ring() || host_bytes_of(tensors) <= kCheckpointChunkBytes)) {
    STOKER_ASSIGN(snapshot->sources, sources_of(tensors));
    reserve(layout, tensors, lend, *snapshot);
    if (staging.is_ring() && !hold_all(tensors, *snapshot)) snapshot = std::make_shared<Snapshot>();
  }
  if (std::ranges::none_of(snapshot->sources, is_in_it))
    return copy_in_time(layout, tensors, staging);
  for (const auto& [device, lane] : lanes_) snapshot->lanes.push_back(lane.get());
  std::atomic<bool> is_late = false;
  // What does not fit: its copies to the host run beside those on the device.
  const auto begin = [&]() -> Status {
    STOKER_TRY(take(layout, tensors, *snapshot));
    if (staging.is_ring()) return {};
    const auto is_left = [](const TensorSource& one) { return one.is_now && one.lane != nullptr; };
    if (std::ranges::any_of(snapshot->sources, is_left))
      STOKER_TRY(prepare_host_copies(snapshot->sources, staging));
    ChunkFiller filler(layout, tensors, snapshot->sources, staging, deadline_);
    Status filled = filler.fill_now(threads_for(tensors));
    is_late = is_late || filler.is_late();
    return filled;
  };
  Status begun = Status::from_errno(ENOMEM, "copy a checkpoint on its device", "");
  {
    AwaitLanes unless_begun(snapshot->lanes, deadline_,
                            &is_late);  // nothing reads the tensors then
    try {
      begun = begin();
    } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): `begun` says so
    }
    if (begun.ok() || is_late) unless_begun.dismiss();
  }
  if (is_late) return end_late(snapshot, begun, staging);
  STOKER_TRY(begun);
  AwaitLanes unless_left(snapshot->lanes);
  CopyRest rest = [this, &layout, tensors, &staging, snapshot] {
    const bool is_whole = !snapshot->tensors.empty();
    return drain(layout, is_whole ? snapshot->tensors : tensors, staging, *snapshot);
  };
  unless_left.dismiss();
  return rest;
}

Result<std::vector<Digest128>> DeviceCopier::digests(std::span<const SaveTensor> tensors,
                                                     CopyRest& late) {
  std::vector<SaveTensor> on_host;
  std::vector<DeviceTensor> on_devices;
  for (const SaveTensor& tensor : tensors) {
    if (tensor.device == kHostMemory) {
      on_host.push_back(tensor);
      continue;
    }
    STOKER_ASSIGN(DeviceLane* const lane, this->lane(tensor.device));
    on_devices.push_back({.lane = lane, .tensor = &tensor});
  }
  for (const auto& [device, lane] : lanes_) {
    if (std::ranges::find(on_devices, lane.get(), &DeviceTensor::lane) == on_devices.end())
      continue;
    const CudaScope scope(*lane->device());
    STOKER_TRY(scope.status());
    STOKER_TRY(follow_callers(*lane, lane->to_host()));
  }
  STOKER_ASSIGN(const std::vector<Digest128> of_host, host_->digests(on_host, late));
  STOKER_ASSIGN(const std::vector<Digest128> of_devices,
                digests_.hash(on_devices, deadline_, late));
  std::vector<Digest128> found;
  found.reserve(tensors.size());
  std::size_t host = 0;
  std::size_t device = 0;
  for (const SaveTensor& tensor : tensors)
    found.push_back(tensor.device == kHostMemory ? of_host[host++] : of_devices[device++]);
  return found;
}

}  // namespace

std::shared_ptr<TensorCopier> make_device_copier(DeviceCopierOptions options) {
  return std::make_shared<DeviceCopier>(std::move(options));
}

}  // namespace stoker
