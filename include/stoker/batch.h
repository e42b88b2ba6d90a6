/// \file
/// Batch: samples as columns, in memory of the loader.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stoker/api.h"
#include "stoker/cursor.h"
#include "stoker/dtype.h"
#include "stoker/fields.h"
#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker {

namespace internal {
struct BatchData;
class BatchInside;
class BatchShelf;
}  // namespace internal

/// One column. Its views are valid as long as its batch.
///
/// Thread safety: plain data; const methods from any thread.
struct STOKER_API Column {
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

  /// The elements of an `array` or `ragged` column as numbers, without a copy. `invalid_argument`
  /// if the column has views, or if T is not the type of its elements: std::int64_t for
  /// Dtype::int64, float for float32, bool for boolean. The bits of float16 and bfloat16 are
  /// std::uint16_t.
  template <typename T>
  Result<std::span<const T>> as() const {
    if (layout == Layout::views || !is_element<T>(dtype)) return wrong_type();
    return std::span<const T>(reinterpret_cast<const T*>(data.data()), data.size() / sizeof(T));
  }
  /// The same for one sample of a `ragged` column, or one row of an `array`. `i` must be below the
  /// batch's size.
  template <typename T>
  Result<std::span<const T>> row(std::size_t i) const {
    const Result<std::span<const T>> all = as<T>();
    if (!all.ok() || all->empty()) return all;
    const std::size_t per_row = all->size() / shape[0];
    const std::size_t begin = layout == Layout::ragged ? offsets[i] : i;
    const std::size_t end = layout == Layout::ragged ? offsets[i + 1] : i + 1;
    return all->subspan(begin * per_row, (end - begin) * per_row);
  }
  /// The field of a sample as text, for a column with views: the bytes, whatever they are, unless
  /// `is_text`. Empty if the sample lacks the field.
  std::string_view text(std::size_t i) const noexcept {
    return {reinterpret_cast<const char*>(views[i].data()), views[i].size()};
  }

 private:
  Status wrong_type() const;
};

/// The samples of one step or micro-batch, in the order of the run. A batch uses memory of the
/// loader, also after the loader is destroyed; destroying the batch returns it. A loader cannot
/// continue while its memory is held: see Loader::next().
///
/// Thread safety: const methods from any thread. It may be destroyed on any thread, and in a forked
/// child, where its memory is a copy that lives until the child ends.
class STOKER_API Batch {
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
  /// Whether they are still there.
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
  /// The elements of a column as numbers: Column::as(). `not_found`, with the names that there are,
  /// if there is no such column.
  template <typename T>
  Result<std::span<const T>> values(std::string_view name) const {
    const Column* const column = find(name);
    if (column == nullptr) return no_column(name);
    return column->as<T>();
  }

  /// The position of each sample in the epoch, and which sample it is; for a replaced sample
  /// (OnError::skip), its replacement.
  std::span<const std::uint64_t> positions() const noexcept;
  std::span<const SampleRef> samples() const noexcept;
  /// 1 for each valid sample, 0 for padding (Tail::pad).
  std::span<const std::uint8_t> valid() const noexcept;
  /// The key of a sample: that of the format, else the field "__key__", else "<shard stem>/<number
  /// in the shard>"; the number of a token window or pack. Made on demand: keys that are not
  /// requested cost nothing.
  std::string key(std::size_t i) const;

  /// Where a sample is stored: the path of its shard, and the offset of its record. The path is
  /// empty for token windows and packs, and if the index is damaged.
  struct Place {
    std::string path = {};
    std::uint64_t offset_bytes = 0;
  };
  Place place(std::size_t i) const;

  /// The cursor of a run that has received this batch and all before it. A run can only continue
  /// between two steps: until the last() micro-batch, it is the cursor at the beginning of the
  /// step.
  const Cursor& cursor() const noexcept;

  /// Bytes of the loader's memory that the batch uses.
  std::size_t leased_bytes() const noexcept;

 private:
  friend class internal::BatchInside;
  friend class internal::BatchShelf;
  Batch(std::unique_ptr<internal::BatchData> data, std::shared_ptr<internal::BatchShelf> shelf);
  Status no_column(std::string_view name) const;

  std::unique_ptr<internal::BatchData> data_;
  std::shared_ptr<internal::BatchShelf> shelf_;
};

}  // namespace stoker
