#include "checkpoint/restore/device_reads.h"

#include <algorithm>

namespace stoker {
namespace {

/// A part of the memory of a DeviceReads.
class BorrowedArena final : public Arena {
 public:
  explicit BorrowedArena(std::span<std::byte> bytes) : bytes_(bytes) {}
  std::span<std::byte> bytes() const noexcept override { return bytes_; }

 private:
  const std::span<std::byte> bytes_;
};

std::string name_device(std::int32_t device) {
  return "copy to cuda:" + std::to_string(device);
}

}  // namespace

Result<std::unique_ptr<DeviceReads>> DeviceReads::begin(
    const std::set<std::int32_t>& devices, const DeviceReadUse& use,
    std::function<std::string(std::size_t chunk)> name_of) {
  STOKER_ASSIGN(const CudaDriver* const driver, use.find_driver());
  std::unique_ptr<DeviceReads> made(
      new DeviceReads(std::move(name_of),
                      use.memory != nullptr ? use.memory : std::make_shared<DeviceReadMemory>(0)));
  for (const std::int32_t device : devices) {
    const std::string context = name_device(device);
    Result<std::unique_ptr<CudaUploader>> uploader = CudaUploader::make(*driver, device);
    STOKER_TRY(uploader.status().with_context(context));
    for (const auto& [number, stream] : use.streams)
      if (number == device)
        STOKER_TRY((*uploader)->follow(static_cast<CudaStream>(stream)).with_context(context));
    made->uploaders_.emplace(device, *std::move(uploader));
  }
  return made;
}

/// The order matters: no event of a stream that still works is destroyed, and no memory that it
/// reads is unmapped.
DeviceReads::~DeviceReads() {
  MutexLock lock(mutex_);
  bool is_over = true;
  for (const auto& [device, uploader] : uploaders_)
    is_over = uploader->synchronize().ok() && is_over;
  lent_.clear();
  uploaders_.clear();  // waits again, should the first wait have failed
  if (is_over)
    for (std::unique_ptr<Arena>& arena : arenas_) memory_->give_back(std::move(arena));
  arenas_.clear();
}

Result<std::unique_ptr<Arena>> DeviceReads::arena(std::size_t size_bytes) {
  STOKER_ASSIGN(std::unique_ptr<Arena> made,
                memory_->take(size_bytes, uploaders_.begin()->second->device()));
  auto view = std::make_unique<BorrowedArena>(made->bytes());
  MutexLock lock(mutex_);
  arenas_.push_back(std::move(made));
  return std::unique_ptr<Arena>(std::move(view));
}

bool DeviceReads::is_ours(const std::byte* at) {
  MutexLock lock(mutex_);
  return std::ranges::any_of(arenas_, [at](const std::unique_ptr<Arena>& arena) {
    const std::span<const std::byte> bytes = arena->bytes();
    return at >= bytes.data() && at < bytes.data() + bytes.size();
  });
}

Status DeviceReads::enqueue(std::size_t chunk, std::span<const std::byte> bytes,
                            const Uploads& uploads) {
  Lent lent{.chunk = chunk, .events = {}};
  Status status;
  for (const auto& [device, copies] : uploads) {
    CudaUploader& uploader = *uploaders_.at(device);
    Result<std::unique_ptr<OwnedCudaEvent>> event = uploader.events().take();
    status = event.ok() ? uploader.enqueue(copies, **event) : event.status();
    if (!status.ok()) return status.with_context(name_device(device) + ", " + name_of_(chunk));
    lent.events.emplace_back(&uploader, *std::move(event));
  }
  if (!is_ours(bytes.data())) {
    const Result<bool> done = is_done(lent, /*wait=*/true);
    give_back(lent);
    return done.status();
  }
  MutexLock lock(mutex_);
  lent_.insert_or_assign(bytes.data(), std::move(lent));
  return {};
}

Result<bool> DeviceReads::is_done(const Lent& lent, bool wait) const {
  for (const auto& [uploader, event] : lent.events) {
    const std::int32_t device = uploader->device()->ordinal();
    const auto context = [&] { return name_device(device) + ", " + name_of_(lent.chunk); };
    const CudaScope scope(*uploader->device());
    if (!scope.status().ok()) return scope.status().with_context(context());
    if (wait) {
      if (const Status status = event->synchronize(); !status.ok())
        return status.with_context(context());
      continue;
    }
    const Result<bool> done = event->is_done();
    if (!done.ok()) return done.status().with_context(context());
    if (!*done) return false;
  }
  return true;
}

void DeviceReads::give_back(Lent& lent) {
  for (auto& [uploader, event] : lent.events) uploader->events().give_back(std::move(event));
}

Result<bool> DeviceReads::may_reuse(std::span<const std::byte> memory, bool wait) {
  Lent lent;
  const std::byte* first = nullptr;
  {
    MutexLock lock(mutex_);
    const auto found = lent_.lower_bound(memory.data());
    if (found == lent_.end() || found->first >= memory.data() + memory.size()) return true;
    first = found->first;
    lent = std::move(found->second);
    lent_.erase(found);
  }
  Result<bool> done = is_done(lent, wait);
  if (done.ok() && *done) {
    give_back(lent);
    return true;
  }
  MutexLock lock(mutex_);  // its events live until the streams have done everything
  lent_.insert_or_assign(first, std::move(lent));
  return done;
}

Status DeviceReads::finish() {
  for (const auto& [device, uploader] : uploaders_)
    STOKER_TRY(uploader->synchronize().with_context(name_device(device)));
  return {};
}

}  // namespace stoker
