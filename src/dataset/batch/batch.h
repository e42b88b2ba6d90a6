/// \file
/// Batch: some samples, as columns, in memory leased from the loader's pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dataset/order/cursor.h"
#include "dataset/order/sample_ref.h"
#include "formats/dtype.h"
#include "formats/shard_format.h"

namespace stoker {

namespace internal {
struct BatchData;
class BatchShelf;
}  // namespace internal

/// One column, as views of its batch: they live as long as it does.
struct Column {
  enum class Layout : std::uint8_t {
    views,   ///< One view for each sample: `views`.
    array,   ///< One array: `dtype`, `shape`, `data`.
    ragged,  ///< The samples' arrays one after the other: `dtype`, `shape`, `data`, `offsets`.
  };

  std::string_view name;
  Layout layout = Layout::views;
  bool is_text = false;  ///< `views`: they are UTF-8, checked.

  /// `views`: the bytes of each sample's field. One that the sample does not have, which is
  /// possible only where no fields were named, has a null data().
  std::span<const std::span<const std::byte>> views;
  /// `views` of FieldKind::own, and where no fields were named: what the bytes of each are, with
  /// its name if that may be another than the column's. Otherwise empty.
  std::span<const FieldView> fields;

  Dtype dtype = Dtype::uint8;
  /// `array`: the batch size first. `ragged`: the number of all rows first.
  std::span<const std::uint64_t> shape;
  std::span<const std::byte> data;         ///< In C order, aligned to 64.
  std::span<const std::uint64_t> offsets;  ///< `ragged`: sample i has rows [offsets[i], [i + 1]).
  std::span<const std::uint64_t> lengths;  ///< Of a padded array: how many rows of each are real.
};

/// The samples of one step, in the order's order. It holds leases of the loader's memory, also
/// after the loader is gone; destroying it gives them back. A loader cannot go on while its memory
/// is held: see Loader::next().
///
/// Thread safety: const methods from any thread. It may be destroyed on any thread, and in a forked
/// child, where its memory is a copy that lives until the child ends.
class Batch {
 public:
  /// An empty one.
  Batch() noexcept;
  Batch(Batch&& other) noexcept;
  Batch& operator=(Batch&& other) noexcept;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  ~Batch();

  /// Whether there is one: false for a batch that was moved from or released. All of the methods
  /// below but release() want true.
  explicit operator bool() const noexcept { return data_ != nullptr; }
  /// Gives the memory back now. Every view of it is dead.
  void release() noexcept;
  /// Gives back the memory of arrays and ragged values, for a caller that has copied them: these
  /// columns are empty from now on. The others, keys and the rest stay.
  void release_arrays() noexcept;

  /// Its number in this run of the loader; the first is 0.
  std::uint64_t number() const noexcept;
  std::uint64_t epoch() const noexcept;
  /// Where the global batch begins that this is a rank's part of.
  std::uint64_t position() const noexcept;
  /// Samples, padded ones included; 0 on a rank that has none of a short batch (Tail::keep).
  std::size_t size() const noexcept;

  std::span<const Column> columns() const noexcept;
  /// The column of that name, or null.
  const Column* find(std::string_view name) const noexcept;

  /// The position in the epoch of each sample, and which sample that is; of one that was replaced
  /// (OnError::skip), the one that it was replaced by.
  std::span<const std::uint64_t> positions() const noexcept;
  std::span<const SampleRef> samples() const noexcept;
  /// 1 for each sample that counts, 0 for one that fills the batch (Tail::pad).
  std::span<const std::uint8_t> valid() const noexcept;
  /// The key of a sample; "<shard stem>/<number in the shard>" where its format has none. Made on
  /// demand: batches whose keys nobody asks for cost nothing.
  std::string key(std::size_t i) const;

  /// Where a sample lies: the path of its shard, and the byte at which its record begins. An empty
  /// path for units of tokens, and where the index is damaged.
  struct Place {
    std::string path = {};
    std::uint64_t offset_bytes = 0;
  };
  Place place(std::size_t i) const;

  /// The format of the shards that a sample lies in; one without a name for units of tokens.
  const ShardFormat& shard_format(std::size_t i) const noexcept;
  /// The memory that records were read into, in which most views lie; empty if it is not kept.
  std::span<const std::byte> record_memory() const noexcept;

  /// Where a run stands that has received this batch and all before it.
  const Cursor& cursor() const noexcept;

  /// What it takes from the loader's memory.
  std::size_t leased_bytes() const noexcept;

 private:
  friend class internal::BatchShelf;
  Batch(std::unique_ptr<internal::BatchData> data, std::shared_ptr<internal::BatchShelf> shelf);

  std::unique_ptr<internal::BatchData> data_;
  std::shared_ptr<internal::BatchShelf> shelf_;
};

}  // namespace stoker
