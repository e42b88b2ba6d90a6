#include "checkpoint/toys/toy_device.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <set>
#include <utility>

#include "base/mutex.h"
#include "gpu/fake_stream.h"

namespace stoker::testing {
struct ToyDevice::State {
  std::vector<std::vector<float>> memory;
  std::atomic<std::size_t> failing_chunk{std::numeric_limits<std::size_t>::max()};
  Mutex mutex;
  std::set<const std::byte*> pinned STOKER_GUARDED_BY(mutex);

  /// A device copy: from a pointer of the device, which is the number of a tensor and one more.
  void copy(const std::byte* from, std::uint64_t offset_bytes, std::span<std::byte> to) const {
    const auto& values = memory.at(reinterpret_cast<std::uintptr_t>(from) - 1);
    std::memcpy(to.data(), std::as_bytes(std::span(values)).data() + offset_bytes, to.size());
  }
  bool is_pinned(const std::byte* at) {
    MutexLock lock(mutex);
    return !pinned.empty() && pinned.upper_bound(at) != pinned.begin();
  }
};

namespace {

template <typename State>
class PinnedArena final : public Arena {
 public:
  PinnedArena(MappedArena memory, std::shared_ptr<State> state)
      : memory_(std::move(memory)), state_(std::move(state)) {
    MutexLock lock(state_->mutex);
    state_->pinned.insert(memory_.bytes().data());
  }
  ~PinnedArena() override {
    MutexLock lock(state_->mutex);
    state_->pinned.erase(memory_.bytes().data());
  }
  std::span<std::byte> bytes() const noexcept override { return memory_.bytes(); }

 private:
  MappedArena memory_;
  std::shared_ptr<State> state_;
};

template <typename State>
class DeviceCopier final : public TensorCopier {
 public:
  explicit DeviceCopier(std::shared_ptr<State> state) : state_(std::move(state)) {}

  Status check(std::span<const SaveTensor> tensors) const override {
    for (const SaveTensor& tensor : tensors) {
      if (reinterpret_cast<std::uintptr_t>(tensor.data) > state_->memory.size())
        return Status(Code::invalid_argument, "tensor " + tensor.name + ": not on the device");
      if (!tensor.strides_bytes.empty())
        return Status(Code::invalid_argument, "tensor " + tensor.name + ": not contiguous");
    }
    return {};
  }

  Status copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              Staging& staging) override {
    std::size_t next_stream = 0;
    while (const std::optional<Staging::Chunk> chunk = staging.next_to_fill())
      streams_[next_stream++ % 2].enqueue([this, &layout, tensors, &staging, chunk = *chunk] {
        const Status status = copy_chunk(layout, tensors, chunk);
        status.ok() ? staging.filled(chunk) : staging.fail(status);
      });
    for (FakeStream& stream : streams_) stream.synchronize();
    return staging.status();
  }

  Result<std::vector<Digest128>> digests(std::span<const SaveTensor> tensors,
                                         CopyRest& /*late*/) override {
    std::vector<Digest128> found(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i)
      streams_[i % 2].enqueue([this, &tensor = tensors[i], &digest = found[i]] {
        const Result<std::uint64_t> size_bytes = tensor_bytes(tensor.type, tensor.shape);
        std::vector<std::byte> bytes(*size_bytes);
        state_->copy(tensor.data, 0, bytes);
        digest = xxh3_128(bytes);
      });
    for (FakeStream& stream : streams_) stream.synchronize();
    return found;
  }

 private:
  Status copy_chunk(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                    const Staging::Chunk& chunk) {
    if (!state_->is_pinned(chunk.memory.data()))
      return Status(Code::io_error, "the device cannot reach this memory");
    if (chunk.index == state_->failing_chunk)
      return Status(Code::io_error, "the device has failed");
    const ChunkRef ref = layout.chunks[chunk.index];
    const LayoutFile& file = layout.files[ref.file];
    const std::uint64_t begin = ref.offset_bytes();
    const std::uint64_t end = begin + chunk.size_bytes;
    if (begin < file.header.size())
      std::memcpy(chunk.memory.data(), file.header.data() + begin,
                  std::min<std::uint64_t>(end, file.header.size()) - begin);
    for (const PlacedTensor& placed : file.overlapping(begin, end)) {
      const std::uint64_t from = std::max(begin, placed.begin_bytes);
      const std::uint64_t to = std::min(end, placed.end_bytes);
      state_->copy(tensors[placed.tensor].data, from - placed.begin_bytes,
                   chunk.memory.subspan(from - begin, to - from));
    }
    return {};
  }

  std::shared_ptr<State> state_;
  std::array<FakeStream, 2> streams_{FakeStream(0), FakeStream(0)};
};

}  // namespace

ToyDevice::ToyDevice() : state_(std::make_shared<State>()) {}
ToyDevice::~ToyDevice() = default;

SaveTensor ToyDevice::upload(std::string name, std::vector<float> values) {
  const std::uint64_t count = values.size();
  state_->memory.push_back(std::move(values));
  return {.name = std::move(name),
          .type = TensorType::f32,
          .shape = {count},
          .data = reinterpret_cast<const std::byte*>(state_->memory.size())};
}

void ToyDevice::fail_at(std::size_t chunk) {
  state_->failing_chunk = chunk;
}

std::shared_ptr<TensorCopier> ToyDevice::copier() {
  return std::make_shared<DeviceCopier<State>>(state_);
}

ArenaMaker ToyDevice::pinned_memory() {
  return [state = state_](std::size_t size_bytes) -> Result<std::unique_ptr<Arena>> {
    STOKER_ASSIGN(MappedArena memory, MappedArena::map(size_bytes, false, true));
    return std::unique_ptr<Arena>(std::make_unique<PinnedArena<State>>(std::move(memory), state));
  };
}

}  // namespace stoker::testing
