#include "checkpoint/staging/tensor_copier.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

#include "base/work_together.h"
#include "checkpoint/staging/tensor_copy.h"

namespace stoker {
namespace {

/// Copies with threads that block while they read.
class ThreadedCopier final : public TensorCopier {
 public:
  ThreadedCopier(std::size_t thread_count, TensorRead read)
      : thread_count_(thread_count), read_(std::move(read)) {}

  Status copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              Staging& staging) override {
    const auto work = [&] {
      try {
        while (const std::optional<Staging::Chunk> chunk = staging.next_to_fill()) {
          const ChunkRef ref = layout.chunks[chunk->index];
          const Status filled = fill(layout.files[ref.file], tensors, ref.offset_bytes(),
                                     chunk->memory.first(chunk->size_bytes));
          if (!filled.ok()) return staging.fail(filled);
          staging.filled(*chunk);
        }
      } catch (const std::bad_alloc&) {
        staging.fail(Status::from_errno(ENOMEM, "copy a checkpoint", ""));
      }
    };
    work_together(std::min(thread_count_, layout.chunks.size()), work);
    return staging.status();
  }

  Result<std::vector<Digest128>> digests(std::span<const SaveTensor> tensors,
                                         CopyRest& /*late*/) override {
    std::vector<Digest128> found(tensors.size());
    std::vector<Status> failures(tensors.size());
    std::atomic<std::size_t> next = 0;
    work_together(std::min(thread_count_, tensors.size()), [&] {
      for (std::size_t i = next++; i < tensors.size(); i = next++) {
        try {
          const Result<Digest128> digest = hash(tensors[i]);
          digest.ok() ? static_cast<void>(found[i] = *digest)
                      : static_cast<void>(failures[i] = digest.status());
        } catch (const std::bad_alloc&) {
          failures[i] = Status::from_errno(ENOMEM, "hash a tensor", tensors[i].name);
        }
      }
    });
    for (const Status& failure : failures) STOKER_TRY(failure);
    return found;
  }

 private:
  /// Reads in pieces that stay in the CPU cache.
  Result<Digest128> hash(const SaveTensor& tensor) const {
    constexpr std::uint64_t kPieceBytes = std::uint64_t{256} << 10;
    STOKER_ASSIGN(const std::uint64_t size_bytes, tensor_bytes(tensor.type, tensor.shape));
    std::vector<std::byte> piece(std::min(kPieceBytes, size_bytes));
    if (piece.size() == size_bytes) {
      if (size_bytes > 0) STOKER_TRY(read_(tensor, 0, piece));
      return xxh3_128(piece);
    }
    Xxh3Stream stream;
    for (std::uint64_t begin = 0; begin < size_bytes; begin += piece.size()) {
      piece.resize(std::min(kPieceBytes, size_bytes - begin));
      STOKER_TRY(read_(tensor, begin, piece));
      stream.update(piece);
    }
    return stream.digest();
  }

  /// Fills `out` with the bytes of a file from `begin` on: its header and its tensors.
  Status fill(const LayoutFile& file, std::span<const SaveTensor> tensors, std::uint64_t begin,
              std::span<std::byte> out) const {
    const std::uint64_t end = begin + out.size();
    copy_header(file, begin, out);
    for (const PlacedTensor& placed : file.overlapping(begin, end)) {
      const std::uint64_t from = std::max(begin, placed.begin_bytes);
      const std::uint64_t to = std::min(end, placed.end_bytes);
      STOKER_TRY(read_(tensors[placed.tensor], from - placed.begin_bytes,
                       out.subspan(from - begin, to - from)));
    }
    return {};
  }

  const std::size_t thread_count_;
  const TensorRead read_;
};

/// Copies tensors from this process's memory.
class HostCopier final : public TensorCopier {
 public:
  explicit HostCopier(std::size_t thread_count)
      : copier_(thread_count,
                [](const SaveTensor& tensor, std::uint64_t offset_bytes, std::span<std::byte> out) {
                  copy_tensor_bytes(tensor, offset_bytes, out);
                  return Status();
                }) {}

  Status check(std::span<const SaveTensor> tensors) const override {
    for (const SaveTensor& tensor : tensors) {
      STOKER_TRY(check_has_data(tensor));
      if (tensor.device != kHostMemory)
        return Status(Code::invalid_argument,
                      "tensor " + tensor.name + ": it is on a device, and no copier for it is set");
    }
    return {};
  }
  bool is_of_host_memory() const noexcept override { return true; }
  Status copy(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              Staging& staging) override {
    return copier_.copy(layout, tensors, staging);
  }
  Result<std::vector<Digest128>> digests(std::span<const SaveTensor> tensors,
                                         CopyRest& late) override {
    return copier_.digests(tensors, late);
  }

 private:
  ThreadedCopier copier_;
};

}  // namespace

Status check_has_data(const SaveTensor& tensor) {
  if (tensor.data != nullptr || std::ranges::count(tensor.shape, 0U) > 0) return {};
  return Status(Code::invalid_argument, "tensor " + tensor.name + ": it has no data");
}

void copy_header(const LayoutFile& file, std::uint64_t begin_bytes, std::span<std::byte> out) {
  if (begin_bytes >= file.header.size()) return;
  const std::uint64_t end = std::min<std::uint64_t>(begin_bytes + out.size(), file.header.size());
  std::memcpy(out.data(), file.header.data() + begin_bytes, end - begin_bytes);
}

std::shared_ptr<TensorCopier> make_host_copier(std::size_t thread_count) {
  return std::make_shared<HostCopier>(thread_count);
}

std::shared_ptr<TensorCopier> make_reading_copier(std::size_t thread_count, TensorRead read) {
  return std::make_shared<ThreadedCopier>(thread_count, std::move(read));
}

}  // namespace stoker
