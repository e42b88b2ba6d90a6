/// \file
/// The contents of a Batch, for the code that fills it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "dataset/batch/stage_times.h"
#include "dataset/shard_dataset.h"
#include "formats/shard_format.h"
#include "io/engine/buffer_pool.h"
#include "stoker/batch.h"

namespace stoker::internal {

/// Heap memory in pieces that do not move: for data that does not fit in a lease, such as decoded
/// varints, unescaped JSON text, and the records of replacement samples.
///
/// Thread safety: none.
class SpareMemory {
 public:
  /// Returns uninitialized memory aligned to `align_bytes`, a power of two up to 4096.
  std::span<std::byte> take(std::size_t size_bytes, std::size_t align_bytes = 64);
  /// Returns a copy that is valid until clear().
  std::span<const std::byte> keep(std::span<const std::byte> bytes);
  /// Frees all memory except one piece of ordinary size.
  void clear() noexcept;
  std::size_t size_bytes() const noexcept { return size_bytes_; }

 private:
  static constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  struct Piece {
    std::unique_ptr<std::byte, Free> memory;
    std::size_t size_bytes = 0;
  };

  std::vector<Piece> pieces_;
  std::size_t used_bytes_ = 0;  // of the last piece
  std::size_t size_bytes_ = 0;
};

/// Data that a Column refers to, besides the leases.
struct ColumnStore {
  std::string name;
  std::vector<std::span<const std::byte>> views;
  std::vector<FieldView> fields;  ///< For FieldKind::own and all_fields.
  std::vector<std::uint64_t> shape;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> lengths;
};

using DatasetList = std::vector<std::shared_ptr<const ShardDataset>>;

/// Filled by one of the loader's threads, then read through Batch. Reused from batch to batch: its
/// vectors keep their memory, so that a run at full speed allocates nothing per sample.
///
/// Thread safety: none.
struct BatchData {
  /// Removes the samples and releases the leases; vectors keep their memory.
  void clear() noexcept;
  std::string key(std::size_t i) const;

  const ForkGuard made_here;
  std::uint64_t number = 0;
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;  ///< Where the global batch begins.
  std::uint64_t micro_batch = 0;
  bool last = true;
  Cursor cursor;
  std::vector<std::uint64_t> positions;
  std::vector<SampleRef> samples;
  std::vector<std::uint8_t> valid;
  /// Key i ends at key_ends[i] of `keys` and begins where the previous key ends. For an empty key
  /// the dataset's numbered_key() is used.
  std::string keys;
  std::vector<std::size_t> key_ends;

  std::vector<Column> columns;
  /// At least as many as columns. Each on the heap, because columns point into them.
  std::vector<std::unique_ptr<ColumnStore>> stores;

  Lease records;           ///< The samples' records, if a column has views of them.
  Lease arrays;            ///< Arrays and values.
  bool has_arrays = true;  ///< Neither released nor taken.
  SpareMemory spare;
  std::shared_ptr<const DatasetList> datasets;  ///< For numbered keys; null for tokens.

  StageTimes times;
  std::uint64_t record_bytes = 0;
  std::uint64_t unchecked = 0;
  std::uint64_t replaced = 0;
};

/// What the library may do with a batch, and programs may not.
class BatchInside {
 public:
  /// As Batch::release_arrays(), but returns the memory: for a caller whose copy has only begun.
  static Lease take_arrays(Batch& batch) noexcept;
  /// The format of a sample's shard; one without a name for token windows and packs.
  static const ShardFormat& shard_format(const Batch& batch, std::size_t i) noexcept;
  /// The memory that records were read into, which contains most views; empty if it is not kept.
  static std::span<const std::byte> record_memory(const Batch& batch) noexcept;
};

/// Keeps unused BatchData for reuse. Shared by the loader and all its batches; the last of them
/// frees it.
///
/// Thread safety: every method from any thread.
class BatchShelf {
 public:
  explicit BatchShelf(std::size_t capacity) : capacity_(capacity) { kept_.reserve(capacity); }

  std::unique_ptr<BatchData> take();
  /// Clears `data`, which releases its leases, and keeps it if there is room. In a forked child
  /// `data` is leaked instead: the pool's mutex may be locked there forever.
  void put(std::unique_ptr<BatchData> data) noexcept;

  static Batch make_batch(std::unique_ptr<BatchData> data, std::shared_ptr<BatchShelf> shelf) {
    return {std::move(data), std::move(shelf)};
  }

 private:
  const std::size_t capacity_;
  Mutex mutex_;
  std::vector<std::unique_ptr<BatchData>> kept_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker::internal
