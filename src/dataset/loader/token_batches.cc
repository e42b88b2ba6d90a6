#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "dataset/fetch/record_fetch.h"
#include "dataset/loader/batch_maker.h"
#include "dataset/tokens/token_rows.h"

namespace stoker::internal {
namespace {

/// Pieces of rows, planned in groups of LoaderPlan::kPiecesAtOnce that are read one after the other
/// into the same memory.
struct PieceFetch {
  std::vector<FetchPlan> plans;  ///< Kept from batch to batch; the first `count` are valid.
  std::size_t count = 0;
  std::size_t memory_bytes = 0;
};

/// Makes batches of token windows or packs, read straight into the rows of an array.
class TokenBatches final : public BatchMaker {
 public:
  TokenBatches(const LoaderPlan& plan, std::unique_ptr<RecordFetcher> fetcher)
      : plan_(plan),
        fetcher_(std::move(fetcher)),
        column_(plan.token_columns.front()),
        row_bytes_(plan.tokens.row_bytes_max()) {}

  Result<LoaderPlan::BatchMemory> plan(std::uint64_t number, BatchData& out) override {
    plan_.begin_batch(number, out);
    return plan_samples(out);
  }

  Result<LoaderPlan::BatchMemory> plan_samples(BatchData& out) override {
    const std::size_t rows = out.samples.size();
    if (located_.size() < rows) located_.resize(rows);
    pieces_.clear();
    for (std::size_t row = 0; row < rows; ++row) {
      STOKER_TRY(plan_.tokens.locate(out.samples[row], located_[row]));
      add_pieces(out.samples[row].dataset, row, located_[row]);
    }
    STOKER_TRY(plan_pieces(rows, fetch_));
    return LoaderPlan::BatchMemory{.records_bytes = fetch_.memory_bytes,
                                   .arrays_bytes = plan_.token_arrays_bytes(rows)};
  }

  Status fill(BatchData& out, const std::stop_token& stop) override {
    const std::size_t rows = out.samples.size();
    const std::span<std::byte> tokens = out.arrays.bytes().first(rows * column_.row_bytes);
    const std::span<std::byte> narrow = tokens.last(rows * row_bytes_);
    statuses_.assign(rows, Status());
    STOKER_TRY(read_pieces(fetch_, out.records.bytes(), narrow, statuses_, stop));
    out.records = {};
    out.times.enter(LoaderStage::decode);
    for (std::size_t row = 0; row < rows; ++row) {
      if (!statuses_[row].ok()) STOKER_TRY(replace_row(row, narrow, out, stop));
      out.key_ends.push_back(0);
      count_row(located_[row], out);
    }
    out.times.enter(LoaderStage::collate);
    if (column_.is_widened) widen_rows(out, tokens);
    make_columns(out);
    if (plan_.tokens.is_packs()) finish_packs(out);
    return {};
  }

  FetchCounters counters() const override { return fetcher_->counters(); }

 private:
  /// A row that is stored in fewer bytes than the widest is read to the end of its space, from
  /// where it is widened in place.
  void add_pieces(std::uint32_t dataset, std::size_t row, std::span<const BinPiece> pieces) {
    const std::size_t begin = (row + 1) * row_bytes_ - plan_.tokens.row_bytes(dataset);
    for (const BinPiece& piece : pieces)
      pieces_.push_back({.dataset = dataset,
                         .shard = piece.shard,
                         .range = piece.range,
                         .at_bytes = begin + piece.at_bytes,
                         .row = static_cast<std::uint32_t>(row),
                         .crc32c = piece.crc32c});
  }

  Status plan_pieces(std::size_t rows, PieceFetch& out) {
    out.count = 0;
    out.memory_bytes = 0;
    for (std::size_t at = 0; at < pieces_.size(); at += LoaderPlan::kPiecesAtOnce) {
      if (out.plans.size() == out.count) out.plans.emplace_back();
      FetchPlan& plan = out.plans[out.count++];
      const std::size_t count = std::min(pieces_.size() - at, LoaderPlan::kPiecesAtOnce);
      STOKER_TRY(fetcher_->plan_rows(std::span(pieces_).subspan(at, count), rows * row_bytes_, rows,
                                     plan));
      out.memory_bytes = std::max<std::size_t>(out.memory_bytes, plan.memory_bytes);
    }
    return {};
  }

  /// Sets `out`, which must be all OK, to the first failure of each row.
  Status read_pieces(const PieceFetch& fetch, std::span<std::byte> memory,
                     std::span<std::byte> rows, std::span<Status> out,
                     const std::stop_token& stop) {
    for (std::size_t i = 0; i < fetch.count; ++i) {
      group_.resize(out.size());
      STOKER_TRY(fetcher_->read_rows(fetch.plans[i], memory, rows, group_, stop));
      for (std::size_t row = 0; row < out.size(); ++row)
        if (out[row].ok()) out[row] = std::move(group_[row]);
    }
    return {};
  }

  /// Row by row, forward: a widened row ends before the next row that is not widened yet begins.
  void widen_rows(const BatchData& out, std::span<std::byte> tokens) const {
    const std::size_t rows = out.samples.size();
    for (std::size_t row = 0; row < rows; ++row) {
      const std::size_t begin = row * column_.row_bytes;
      const std::size_t end = tokens.size() - (rows - row - 1) * row_bytes_;
      widen_tokens(plan_.tokens.dtype(out.samples[row].dataset), tokens.subspan(begin, end - begin),
                   plan_.tokens.tokens_per_row());
    }
  }

  /// Replaces a row that could not be read, or fails, as OnError says.
  Status replace_row(std::size_t row, std::span<std::byte> narrow, BatchData& out,
                     const std::stop_token& stop) {
    SampleRef& ref = out.samples[row];
    Status failure = statuses_[row].with_context(
        fmt::format("token {} {}", plan_.tokens.is_packs() ? "pack" : "window", ref.sample));
    if (plan_.options.on_error == OnError::raise) return failure;
    Status last;
    for (std::uint64_t attempt = 0; attempt < kReplacementTries; ++attempt) {
      ref.sample = replacement_sample(plan_.options.seed, out.epoch, out.positions[row], attempt,
                                      plan_.unit_count(ref.dataset));
      STOKER_TRY(plan_.tokens.locate(ref, located_[row]));
      pieces_.clear();
      add_pieces(ref.dataset, 0, located_[row]);
      STOKER_TRY(plan_pieces(1, replacement_fetch_));
      // Not from the pool: a batch may lease only in its turn, which is over.
      const std::span<std::byte> memory =
          out.spare.take(replacement_fetch_.memory_bytes, BufferPool::kAlignBytes);
      last = Status();
      STOKER_TRY(read_pieces(replacement_fetch_, memory,
                             narrow.subspan(row * row_bytes_, row_bytes_), {&last, 1}, stop));
      if (!last.ok()) continue;
      ++out.replaced;
      return {};
    }
    return no_replacement(failure, last);
  }

  void count_row(std::span<const BinPiece> pieces, BatchData& out) const {
    bool is_checked = plan_.options.fetch.checksums;
    for (const BinPiece& piece : pieces) {
      out.record_bytes += piece.range.size_bytes;
      is_checked = is_checked && piece.crc32c.has_value();
    }
    if (!is_checked) ++out.unchecked;
  }

  /// Places the columns one after the other in the batch's arrays, as token_arrays_bytes() counts
  /// them.
  void make_columns(BatchData& out) const {
    const std::size_t rows = out.samples.size();
    std::size_t at = 0;
    out.columns.clear();
    for (std::size_t i = 0; i < plan_.token_columns.size(); ++i) {
      const TokenColumn& column = plan_.token_columns[i];
      if (out.stores.size() == i) out.stores.push_back(std::make_unique<ColumnStore>());
      ColumnStore& store = *out.stores[i];
      store.name = column.name;
      store.shape.assign({rows, column.length});
      store.lengths.clear();
      const std::size_t size = rows * column.row_bytes;
      out.columns.push_back(Column{.name = store.name,
                                   .layout = Column::Layout::array,
                                   .views = {},
                                   .fields = {},
                                   .dtype = column.dtype,
                                   .shape = store.shape,
                                   .data = out.arrays.bytes().subspan(at, size),
                                   .offsets = {},
                                   .lengths = {}});
      at += align_array(size);
    }
  }

  void finish_packs(BatchData& out) const {
    const std::size_t length = plan_.tokens.tokens_per_row();
    const std::span<std::byte> arrays = out.arrays.bytes();
    const auto place = [&](std::size_t i) {  // memory of a column
      return arrays.subspan(static_cast<std::size_t>(out.columns[i].data.data() - arrays.data()));
    };
    auto* positions = reinterpret_cast<std::int32_t*>(place(1).data());
    auto* documents = reinterpret_cast<std::int32_t*>(place(2).data());
    std::vector<std::uint64_t>& lengths = out.stores.front()->lengths;
    for (std::size_t row = 0; row < out.samples.size(); ++row)
      lengths.push_back(finish_pack_row(
          located_[row], dtype_size_bytes(plan_.tokens.dtype(out.samples[row].dataset)),
          column_.pad_element,
          {.tokens = arrays.subspan(row * column_.row_bytes, column_.row_bytes),
           .position_ids = {positions + row * length, length},
           .document_ids = {documents + row * length, length}}));
    out.columns.front().lengths = lengths;
  }

  const LoaderPlan& plan_;
  std::unique_ptr<RecordFetcher> fetcher_;
  const TokenColumn& column_;                   ///< The tokens' column.
  const std::size_t row_bytes_;                 ///< Maximum stored size of a row.
  std::vector<std::vector<BinPiece>> located_;  ///< Pieces of each row.
  std::vector<RowPiece> pieces_;
  std::vector<Status> statuses_;
  std::vector<Status> group_;
  PieceFetch fetch_;
  PieceFetch replacement_fetch_;
};

}  // namespace

Result<std::unique_ptr<BatchMaker>> make_token_batches(const LoaderPlan& plan) {
  STOKER_ASSIGN(std::unique_ptr<RecordFetcher> fetcher,
                RecordFetcher::make(*plan.datasets, plan.options.fetch));
  return std::unique_ptr<BatchMaker>(std::make_unique<TokenBatches>(plan, std::move(fetcher)));
}

}  // namespace stoker::internal
