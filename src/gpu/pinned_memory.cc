#include "gpu/pinned_memory.h"

#include <sys/mman.h>

#include <utility>

namespace stoker {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

}  // namespace

class PinnedMemory::PinnedArena final : public Arena {
 public:
  PinnedArena(MappedArena memory, std::shared_ptr<PinnedMemory> known_to)
      : memory_(std::make_unique<MappedArena>(std::move(memory))), known_to_(std::move(known_to)) {}

  ~PinnedArena() override {
    if (!guard_.is_here()) {  // its addresses may belong to something else in a child
      static_cast<void>(memory_.release());
      return;
    }
    known_to_->forget(bytes().data());
    if (device_ == nullptr) return;
    const CudaScope scope(*device_);
    // An error here is that of earlier work. The memory is unmapped all the same.
    if (scope.status().ok())
      static_cast<void>(device_->driver().mem_host_unregister(bytes().data()));
  }

  std::span<std::byte> bytes() const noexcept override { return memory_->bytes(); }
  bool is_registered() const noexcept { return device_ != nullptr; }

  Status register_with(const std::shared_ptr<const CudaDevice>& device) {
    if (std::exchange(was_tried_, true)) return {};
    ::madvise(bytes().data(), bytes().size(), MADV_DONTFORK);
    const CudaScope scope(*device);
    STOKER_TRY(scope.status());
    const CudaDriver& driver = device->driver();
    STOKER_TRY(driver.check(
        driver.mem_host_register(bytes().data(), bytes().size(), kCudaRegisterPortable),
        "cuMemHostRegister"));
    device_ = device;
    return {};
  }

 private:
  const ForkGuard guard_;
  std::unique_ptr<MappedArena> memory_;
  const std::shared_ptr<PinnedMemory> known_to_;
  bool was_tried_ = false;
  std::shared_ptr<const CudaDevice> device_;  // null: not registered
};

ArenaMaker PinnedMemory::maker(bool touch) {
  return
      [self = shared_from_this(), touch](std::size_t size_bytes) -> Result<std::unique_ptr<Arena>> {
        STOKER_ASSIGN(MappedArena mapped,
                      MappedArena::map(size_bytes, size_bytes >= kHugePageBytes, touch));
        auto arena = std::make_unique<PinnedArena>(std::move(mapped), self);
        MutexLock lock(self->mutex_);
        self->arenas_.emplace(arena->bytes().data(), arena.get());
        return std::unique_ptr<Arena>(std::move(arena));
      };
}

PinnedMemory::PinnedArena* PinnedMemory::find(const std::byte* at) const {
  MutexLock lock(mutex_);
  auto after = arenas_.upper_bound(at);
  if (after == arenas_.begin()) return nullptr;
  PinnedArena* const arena = std::prev(after)->second;
  return at < arena->bytes().data() + arena->bytes().size() ? arena : nullptr;
}

void PinnedMemory::forget(const std::byte* first) {
  MutexLock lock(mutex_);
  arenas_.erase(first);
}

bool PinnedMemory::pin(std::span<const std::byte> memory,
                       const std::shared_ptr<const CudaDevice>& device) {
  PinnedArena* const arena = find(memory.data());
  if (arena == nullptr) return false;
  Status failed = arena->register_with(device);
  if (failed.ok()) return arena->is_registered();
  MutexLock lock(mutex_);
  failure_ = std::move(failed);
  return false;
}

Status PinnedMemory::failure() const {
  MutexLock lock(mutex_);
  return failure_;
}

}  // namespace stoker
