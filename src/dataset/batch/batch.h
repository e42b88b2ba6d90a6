/// \file
/// Batch: samples as columns, in memory leased from the loader's pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "formats/shard_format.h"
#include "io/engine/buffer_pool.h"
#include "stoker/cursor.h"
#include "stoker/dtype.h"
#include "stoker/order.h"

namespace stoker {

namespace internal {
struct BatchData;
class BatchShelf;
}  // namespace internal

/// One column. Its views are valid as long as its batch.
struct Column {
  enum class Layout : std::uint8_t {
    views,   ///< One view per sample: `views`.
    array,   ///< One array: `dtype`, `shape`, `data`.
    ragged,  ///< The samples' arrays one after the other: `dtype`, `shape`, `data`, `offsets`.
  };

  std::string_view name;
  Layout layout = Layout::views;
  bool is_text = false;  ///< `views`: valid UTF-8.

  /// `views`: the bytes of each sample's field. If the sample lacks the field, which is possible
  /// only if no fields were named, data() is null.
  std::span<const std::span<const std::byte>> views;
  /// `views` of FieldKind::own, or if no fields were named: the type of each field, and for
  /// FieldKind::own its name, which may differ from the column's. Otherwise empty.
  std::span<const FieldView> fields;

  Dtype dtype = Dtype::uint8;
  /// `array`: the batch size first. `ragged`: the number of all rows first.
  std::span<const std::uint64_t> shape;
  std::span<const std::byte> data;         ///< In C order, aligned to 64.
  std::span<const std::uint64_t> offsets;  ///< `ragged`: sample i has rows [offsets[i], [i + 1]).
  std::span<const std::uint64_t> lengths;  ///< Padded arrays: rows of each sample without padding.
};

/// The samples of one step or micro-batch, in the order of the run. A batch holds leases of the
/// loader's memory, also after the loader is destroyed; destroying the batch releases them. A
/// loader cannot continue while its memory is held: see LoaderRun::next().
///
/// Thread safety: const methods from any thread. It may be destroyed on any thread, and in a forked
/// child, where its memory is a copy that lives until the child ends.
class Batch {
 public:
  /// An empty batch.
  Batch() noexcept;
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();

  /// False for a batch that is empty, was moved from or released. All methods below except
  /// release() require true.
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Releases the memory now. Views of it become invalid.
  void release() noexcept;
  /// Releases the memory of arrays and ragged values, for a caller that has copied them: these
  /// columns are empty from now on. Other columns, keys and the rest stay valid.
  void release_arrays() noexcept;
  /// The same, but returns the memory: for a caller whose copy has only begun.
  Lease take_arrays() noexcept;
  /// Whether neither of these was called.
  bool has_arrays() const noexcept;

  /// The batch's number in this run of the loader, from 0.
  std::uint64_t number() const noexcept;
  std::uint64_t epoch() const noexcept;
  /// The position at which the global batch begins.
  std::uint64_t position() const noexcept;
  /// Which micro-batch of its step it is, from 0; and whether it is the last, as every batch is if
  /// steps are not cut into micro-batches.
  std::uint64_t micro_batch() const noexcept;
  bool last() const noexcept;
  /// Number of samples, including padding; 0 on a rank that has none of a short batch (Tail::keep).
  std::size_t size() const noexcept;

  std::span<const Column> columns() const noexcept;
  /// The column of that name, or null.
  const Column* find(std::string_view name) const noexcept;

  /// The position of each sample in the epoch, and which sample it is; for a replaced sample
  /// (OnError::skip), its replacement.
  std::span<const std::uint64_t> positions() const noexcept;
  std::span<const SampleRef> samples() const noexcept;
  /// 1 for each valid sample, 0 for padding (Tail::pad).
  std::span<const std::uint8_t> valid() const noexcept;
  /// The key of a sample; "<shard stem>/<number in the shard>" if its format has none, and the
  /// number of a token window or pack. Made on demand: keys that are not requested cost nothing.
  std::string key(std::size_t i) const;

  /// Where a sample is stored: the path of its shard, and the offset of its record. The path is
  /// empty for token windows and packs, and if the index is damaged.
  struct Place {
    std::string path = {};
    std::uint64_t offset_bytes = 0;
  };
  Place place(std::size_t i) const;

  /// The format of a sample's shard; one without a name for token windows and packs.
  const ShardFormat& shard_format(std::size_t i) const noexcept;
  /// The memory that records were read into, which contains most views; empty if it is not kept.
  std::span<const std::byte> record_memory() const noexcept;

  /// The cursor of a run that has received this batch and all before it. A run can only continue
  /// between two steps: until the last() micro-batch, it is the cursor at the beginning of the
  /// step.
  const Cursor& cursor() const noexcept;

  /// Bytes of the loader's memory that the batch uses.
  std::size_t leased_bytes() const noexcept;

 private:
  friend class internal::BatchShelf;
  Batch(std::unique_ptr<internal::BatchData> data, std::shared_ptr<internal::BatchShelf> shelf);

  std::unique_ptr<internal::BatchData> data_;
  std::shared_ptr<internal::BatchShelf> shelf_;
};

}  // namespace stoker
