#include "stoker/batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "dataset/batch/batch_data.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace internal {
namespace {

constexpr std::align_val_t kPieceAlign{4096};

}  // namespace

void SpareMemory::Free::operator()(std::byte* memory) const noexcept {
  ::operator delete(memory, kPieceAlign);
}

std::span<std::byte> SpareMemory::take(std::size_t size_bytes, std::size_t align_bytes) {
  const std::size_t begin = (used_bytes_ + align_bytes - 1) & ~(align_bytes - 1);
  if (pieces_.empty() || begin + size_bytes > pieces_.back().size_bytes) {
    const std::size_t size = std::max(size_bytes, kPieceBytes);
    pieces_.push_back({.memory = std::unique_ptr<std::byte, Free>(
                           static_cast<std::byte*>(::operator new(size, kPieceAlign))),
                       .size_bytes = size});
    size_bytes_ += size;
    used_bytes_ = size_bytes;
    return {pieces_.back().memory.get(), size_bytes};
  }
  used_bytes_ = begin + size_bytes;
  return {pieces_.back().memory.get() + begin, size_bytes};
}

std::span<const std::byte> SpareMemory::keep(std::span<const std::byte> bytes) {
  const std::span<std::byte> room = take(bytes.size(), 8);
  std::ranges::copy(bytes, room.begin());
  return room;
}

void SpareMemory::clear() noexcept {
  const bool keep_first = !pieces_.empty() && pieces_.front().size_bytes == kPieceBytes;
  pieces_.erase(pieces_.begin() + (keep_first ? 1 : 0), pieces_.end());
  size_bytes_ = keep_first ? kPieceBytes : 0;
  used_bytes_ = 0;
}

void BatchData::clear() noexcept {
  positions.clear();
  samples.clear();
  valid.clear();
  keys.clear();
  key_ends.clear();
  columns.clear();
  records = {};
  arrays = {};
  has_arrays = true;
  spare.clear();
  times = {};
  record_bytes = 0;
  unchecked = 0;
  replaced = 0;
}

std::string BatchData::key(std::size_t i) const {
  const std::size_t begin = i == 0 ? 0 : key_ends[i - 1];
  if (key_ends[i] > begin) return keys.substr(begin, key_ends[i] - begin);
  const SampleRef& ref = samples[i];
  if (!datasets) return std::to_string(ref.sample);
  const ShardDataset& dataset = *(*datasets)[ref.dataset];
  const Result<SampleLocation> at = dataset.index().locate(ref.sample);
  return at.ok() ? dataset.numbered_key(ref.sample, at->shard) : std::to_string(ref.sample);
}

std::unique_ptr<BatchData> BatchShelf::take() {
  {
    MutexLock lock(mutex_);
    if (!kept_.empty()) {
      std::unique_ptr<BatchData> data = std::move(kept_.back());
      kept_.pop_back();
      return data;
    }
  }
  return std::make_unique<BatchData>();
}

void BatchShelf::put(std::unique_ptr<BatchData> data) noexcept {
  if (!data->made_here.is_here()) {
    static_cast<void>(data.release());
    return;
  }
  data->clear();
  MutexLock lock(mutex_);
  if (kept_.size() < capacity_) kept_.push_back(std::move(data));
}

Lease BatchInside::take_arrays(Batch& batch) noexcept {
  BatchData& data = *batch.data_;
  for (Column& column : data.columns) {
    if (column.layout == Column::Layout::views) continue;
    column.shape = {};
    column.data = {};
    column.offsets = {};
  }
  data.has_arrays = false;
  return std::exchange(data.arrays, {});
}

const ShardFormat& BatchInside::shard_format(const Batch& batch, std::size_t i) noexcept {
  static constexpr ShardFormat kNoFormat = {};
  const BatchData& data = *batch.data_;
  if (!data.datasets) return kNoFormat;
  return (*data.datasets)[data.samples[i].dataset]->source().shard_format();
}

std::span<const std::byte> BatchInside::record_memory(const Batch& batch) noexcept {
  return batch.data_->records.bytes();
}

}  // namespace internal

Status Column::wrong_type() const {
  if (layout == Layout::views)
    return {Code::invalid_argument,
            fmt::format("column {} has views of bytes, not numbers", quote_for_message(name))};
  return {Code::invalid_argument, fmt::format("the elements of column {} are {}, another type",
                                              quote_for_message(name), dtype_name(dtype))};
}

Batch::Batch() noexcept = default;
Batch::Batch(std::unique_ptr<internal::BatchData> data, std::shared_ptr<internal::BatchShelf> shelf)
    : data_(std::move(data)), shelf_(std::move(shelf)) {}
Batch::Batch(Batch&& other) noexcept = default;
Batch& Batch::operator=(Batch&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::move(other.data_);
  shelf_ = std::move(other.shelf_);
  return *this;
}
Batch::~Batch() {
  release();
}

void Batch::release() noexcept {
  if (data_) shelf_->put(std::move(data_));
  shelf_.reset();
}

void Batch::release_arrays() noexcept {
  static_cast<void>(internal::BatchInside::take_arrays(*this));
}

bool Batch::has_arrays() const noexcept {
  return data_->has_arrays;
}

std::uint64_t Batch::number() const noexcept {
  return data_->number;
}
std::uint64_t Batch::epoch() const noexcept {
  return data_->epoch;
}
std::uint64_t Batch::position() const noexcept {
  return data_->position;
}
std::uint64_t Batch::micro_batch() const noexcept {
  return data_->micro_batch;
}
bool Batch::last() const noexcept {
  return data_->last;
}
std::size_t Batch::size() const noexcept {
  return data_->samples.size();
}
std::span<const Column> Batch::columns() const noexcept {
  return data_->columns;
}
const Column* Batch::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(data_->columns, name, &Column::name);
  return found == data_->columns.end() ? nullptr : &*found;
}
Status Batch::no_column(std::string_view name) const {
  std::string names;
  for (const Column& column : data_->columns)
    names += fmt::format("{}{}", names.empty() ? "" : ", ", quote_for_message(column.name));
  return {Code::not_found, fmt::format("no column {}; the batch has {}", quote_for_message(name),
                                       names.empty() ? "none" : names)};
}
std::span<const std::uint64_t> Batch::positions() const noexcept {
  return data_->positions;
}
std::span<const SampleRef> Batch::samples() const noexcept {
  return data_->samples;
}
std::span<const std::uint8_t> Batch::valid() const noexcept {
  return data_->valid;
}
std::string Batch::key(std::size_t i) const {
  return data_->key(i);
}
Batch::Place Batch::place(std::size_t i) const {
  const SampleRef& ref = data_->samples[i];
  if (!data_->datasets) return {};
  const ShardDataset& dataset = *(*data_->datasets)[ref.dataset];
  const Result<SampleLocation> at = dataset.index().locate(ref.sample);
  if (!at.ok()) return {};
  return {.path = dataset.source().shards()[at->shard].path,
          .offset_bytes = at->record.offset_bytes};
}
const Cursor& Batch::cursor() const noexcept {
  return data_->cursor;
}
std::size_t Batch::leased_bytes() const noexcept {
  return data_->records.bytes().size() + data_->arrays.bytes().size();
}

}  // namespace stoker
