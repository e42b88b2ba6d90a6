#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "dataset/batch/field_columns.h"
#include "dataset/fetch/record_fetch.h"
#include "dataset/loader/batch_maker.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {
namespace {

/// Makes batches of samples, split into fields.
class SampleBatches final : public BatchMaker {
 public:
  SampleBatches(const LoaderPlan& plan, BlockStore* blocks, std::unique_ptr<RecordFetcher> fetcher)
      : plan_(plan),
        store_(blocks),
        fetcher_(std::move(fetcher)),
        columns_(plan.fields, plan.options.seed) {
    for (const auto& dataset : *plan.datasets)
      is_checked_.push_back(dataset->index().has_checksums() ||
                            dataset->source().shard_format().has_checksums);
  }

  Result<LoaderPlan::BatchMemory> plan(std::uint64_t number, BatchData& out) override {
    plan_.begin_batch(number, out);
    if (store_ == nullptr) return plan_samples(out);
    store_->advance(out.epoch, out.positions, loads_);
    STOKER_ASSIGN(const std::size_t copies, plan_with_blocks(out));
    return memory_of(out, copies);
  }

  Result<LoaderPlan::BatchMemory> plan_samples(BatchData& out) override {
    STOKER_TRY(fetcher_->plan(out.samples, fetch_));
    return memory_of(out, 0);
  }

  Status fill(BatchData& out, const std::stop_token& stop) override {
    const std::size_t rows = out.samples.size();
    records_.resize(rows);
    if (store_ == nullptr) {
      STOKER_TRY(fetcher_->read(fetch_, out.records.bytes(), records_, stop));
    } else {
      STOKER_TRY(read_with_blocks(out, stop));
    }
    out.times.enter(LoaderStage::decode);
    columns_.begin(out, rows, record_room_bytes_);
    for (std::size_t row = 0; row < rows; ++row) {
      Status status = set_row(row, records_[row], out);
      if (!status.ok() && plan_.options.on_error == OnError::skip)
        status = replace(row, status, out, stop);
      STOKER_TRY(std::move(status));
    }
    out.times.enter(LoaderStage::collate);
    columns_.finish();
    blocks_.clear();
    if (!plan_.fields.keeps_records()) out.records = {};
    return {};
  }

  Status work_ahead(const std::stop_token& stop) override {
    for (const BlockStore::Load& load : loads_) STOKER_TRY(store_->load(load, *fetcher_, stop));
    loads_.clear();
    return {};
  }

  FetchCounters counters() const override { return fetcher_->counters(); }

 private:
  static constexpr std::size_t kCopyAlignBytes = 64;
  static std::size_t aligned(std::size_t size_bytes) {
    return (size_bytes + kCopyAlignBytes - 1) / kCopyAlignBytes * kCopyAlignBytes;
  }
  LoaderPlan::BatchMemory memory_of(const BatchData& out, std::size_t copies) {
    const std::size_t read = aligned(fetch_.memory_bytes);
    record_room_bytes_ = read + copies;
    return {.records_bytes = plan_.fields.keeps_records() ? read + copies : read,
            .arrays_bytes = plan_.fields.arrays_bytes(out.samples.size(), record_room_bytes_)};
  }
  const FetchedRecord& block_record(std::size_t row, const BatchData& out) const {
    return blocks_[row]->records[out.samples[row].sample - blocks_[row]->first];
  }

  /// Plans to read the samples that are in no block. Returns the bytes needed to copy the others.
  Result<std::size_t> plan_with_blocks(const BatchData& out) {
    store_->find(out.samples, blocks_);
    rest_.clear();
    rest_rows_.clear();
    std::size_t copies = 0;
    for (std::size_t row = 0; row < out.samples.size(); ++row) {
      if (blocks_[row]) {
        copies += aligned(block_record(row, out).bytes.size());
      } else {
        rest_.push_back(out.samples[row]);
        rest_rows_.push_back(row);
      }
    }
    STOKER_TRY(fetcher_->plan(rest_, fetch_));
    return copies;
  }

  Status read_with_blocks(BatchData& out, const std::stop_token& stop) {
    rest_records_.resize(rest_.size());
    STOKER_TRY(fetcher_->read(fetch_, out.records.bytes(), rest_records_, stop));
    for (std::size_t i = 0; i < rest_rows_.size(); ++i)
      records_[rest_rows_[i]] = std::move(rest_records_[i]);
    std::size_t at = aligned(fetch_.memory_bytes);
    for (std::size_t row = 0; row < blocks_.size(); ++row) {
      if (!blocks_[row]) continue;
      const FetchedRecord& from = block_record(row, out);
      records_[row] = from;
      if (!plan_.fields.keeps_records() || from.bytes.empty()) continue;  // no copy needed
      const std::span<std::byte> room = out.records.bytes().subspan(at, from.bytes.size());
      std::memcpy(room.data(), from.bytes.data(), room.size());
      records_[row].bytes = room;
      at += aligned(room.size());
    }
    return {};
  }

  /// A failure names shard, offset, sample, key and field, as far as they are known.
  Status set_row(std::size_t row, const FetchedRecord& record, BatchData& out) {
    if (!record.status.ok()) return record.status;
    const SampleRef& ref = out.samples[row];
    const ShardDataset& dataset = *(*plan_.datasets)[ref.dataset];
    Status status = dataset.source().reader().split(record.bytes, record.offset_bytes, view_);
    const bool is_split = status.ok();
    if (is_split) status = columns_.set_row(row, view_, record.bytes);
    if (!status.ok()) {
      // A record that cannot be split may still have a key: a tar's first header has it.
      const std::string key =
          is_split ? dataset.key_of(view_, ref.sample, record.shard) : std::string(view_.key);
      return status.with_context(
          dataset.describe(ref.sample) +
          (key.empty() ? "" : fmt::format(": key {}", quote_for_message(key))));
    }
    out.keys += ShardDataset::own_key(view_);
    out.key_ends.push_back(out.keys.size());
    out.record_bytes += record.bytes.size();
    if (!is_checked_[ref.dataset]) ++out.unchecked;
    return {};
  }

  Status replace(std::size_t row, const Status& failure, BatchData& out,
                 const std::stop_token& stop) {
    SampleRef& ref = out.samples[row];
    Status last = failure;
    for (std::uint64_t attempt = 0; attempt < kReplacementTries; ++attempt) {
      ref.sample = replacement_sample(plan_.options.seed, out.epoch, out.positions[row], attempt,
                                      plan_.unit_count(ref.dataset));
      STOKER_TRY(fetcher_->plan({&ref, 1}, replacement_fetch_));
      // Not from the pool: a batch may lease only in its turn, which is over.
      const std::span<std::byte> memory =
          out.spare.take(replacement_fetch_.memory_bytes, BufferPool::kAlignBytes);
      FetchedRecord record;
      STOKER_TRY(fetcher_->read(replacement_fetch_, memory, {&record, 1}, stop));
      last = set_row(row, record, out);
      if (!last.ok()) continue;
      ++out.replaced;
      return {};
    }
    return no_replacement(failure, last);
  }

  const LoaderPlan& plan_;
  BlockStore* const store_;  // may be null
  std::unique_ptr<RecordFetcher> fetcher_;
  std::vector<bool> is_checked_;
  FetchPlan fetch_;
  FetchPlan replacement_fetch_;
  std::vector<FetchedRecord> records_;
  // With blocks: the block of each row, the rows without one, and what to read ahead.
  std::vector<std::shared_ptr<const Block>> blocks_;
  std::vector<SampleRef> rest_;
  std::vector<std::size_t> rest_rows_;
  std::vector<FetchedRecord> rest_records_;
  std::vector<BlockStore::Load> loads_;
  std::size_t record_room_bytes_ = 0;  // of the batch planned last
  SampleView view_;
  FieldColumns columns_;
};

}  // namespace

std::uint64_t replacement_sample(std::uint64_t seed, std::uint64_t epoch, std::uint64_t position,
                                 std::uint64_t attempt, std::uint64_t count) noexcept {
  // Mixes in each number with a step of splitmix64. Like the order, this must never change.
  std::uint64_t state = 0x5354'4F4B'4552'534BU;  // "STOKERSK": distinct from the order's keys
  for (const std::uint64_t part : {seed, epoch, position, attempt}) {
    state = (state ^ part) + 0x9E3779B97F4A7C15U;
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9U;
    state = (state ^ (state >> 27)) * 0x94D049BB133111EBU;
    state ^= state >> 31;
  }
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(static_cast<Wide>(state) * count >> 64);
}

Status no_replacement(const Status& failure, const Status& last) {
  return Status(failure.code(),
                fmt::format("{}; none of {} replacement samples could be used either, the last one "
                            "because of: {}",
                            failure.message(), kReplacementTries, last.message()),
                failure.os_error());
}

Result<std::unique_ptr<BatchMaker>> make_sample_batches(const LoaderPlan& plan,
                                                        BlockStore* blocks) {
  STOKER_ASSIGN(std::unique_ptr<RecordFetcher> fetcher,
                RecordFetcher::make(*plan.datasets, plan.options.fetch));
  return std::unique_ptr<BatchMaker>(
      std::make_unique<SampleBatches>(plan, blocks, std::move(fetcher)));
}

}  // namespace stoker::internal
