#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "dataset/batch_maker.h"
#include "dataset/record_fetch.h"

namespace stoker::internal {
namespace {

/// Turns the `count` elements of T at the end of `room` into as many int64 that fill it. In place:
/// going forward, the wide element i ends before the narrow element i + 1 begins. By way of a small
/// buffer, so that the compiler may use vectors.
template <typename T>
void widen(std::span<std::byte> room, std::size_t count) {
  constexpr std::size_t kStep = 512;
  std::array<T, kStep> narrow{};
  std::array<std::int64_t, kStep> wide{};
  const std::byte* from = room.data() + count * (sizeof(std::int64_t) - sizeof(T));
  std::byte* to = room.data();
  while (count > 0) {
    const std::size_t step = std::min(count, kStep);
    std::memcpy(narrow.data(), from, step * sizeof(T));
    for (std::size_t i = 0; i < kStep; ++i)
      wide[i] = static_cast<std::int64_t>(narrow[i]);  // NOLINT(bugprone-signed-char-misuse)
    std::memcpy(to, wide.data(), step * sizeof(std::int64_t));
    from += step * sizeof(T);
    to += step * sizeof(std::int64_t);
    count -= step;
  }
}

void widen_tokens(Dtype dtype, std::span<std::byte> room, std::size_t count) {
  switch (dtype) {
    case Dtype::uint8:
    case Dtype::boolean: return widen<std::uint8_t>(room, count);
    case Dtype::int8: return widen<std::int8_t>(room, count);
    case Dtype::uint16: return widen<std::uint16_t>(room, count);
    case Dtype::int16: return widen<std::int16_t>(room, count);
    case Dtype::uint32: return widen<std::uint32_t>(room, count);
    case Dtype::int32: return widen<std::int32_t>(room, count);
    default: return;  // 64 bits already; RunPlan refuses real numbers
  }
}

/// Token windows, read straight into the rows of an array.
class TokenBatches final : public BatchMaker {
 public:
  TokenBatches(const RunPlan& plan, std::unique_ptr<RecordFetcher> fetcher)
      : plan_(plan),
        fetcher_(std::move(fetcher)),
        column_(plan.fields.columns.front()),
        dtype_(plan.options.windows.front()->dtype()),
        row_bytes_(plan.options.windows.front()->row_bytes()) {}

  Result<RunPlan::BatchMemory> plan(std::uint64_t number, BatchData& out) override {
    plan_.begin_batch(number, out);
    pieces_.clear();
    for (std::size_t row = 0; row < out.samples.size(); ++row) {
      STOKER_ASSIGN(const RowPiece piece, piece_of(out.samples[row], row));
      pieces_.push_back(piece);
    }
    STOKER_TRY(fetcher_->plan_rows(pieces_, pieces_.size() * row_bytes_, pieces_.size(), fetch_));
    return RunPlan::BatchMemory{.records_bytes = fetch_.memory_bytes,
                                .arrays_bytes = pieces_.size() * column_.row_bytes};
  }

  Status fill(BatchData& out, const std::stop_token& stop) override {
    const std::size_t rows = out.samples.size();
    const std::span<std::byte> array = out.arrays.bytes().first(rows * column_.row_bytes);
    const std::span<std::byte> narrow = array.last(rows * row_bytes_);
    statuses_.assign(rows, Status());
    STOKER_TRY(fetcher_->read_rows(fetch_, out.records.bytes(), narrow, statuses_, stop));
    out.records = {};
    out.times.enter(LoaderStage::decode);
    for (std::size_t row = 0; row < rows; ++row) {
      if (!statuses_[row].ok()) STOKER_TRY(mend(row, narrow, out, stop));
      out.key_ends.push_back(0);
    }
    out.times.enter(LoaderStage::collate);
    if (column_.dtype != dtype_)
      widen_tokens(dtype_, array, rows * plan_.options.windows.front()->tokens_per_row());
    out.record_bytes = rows * row_bytes_;
    out.unchecked = rows;  // checksums are those of whole sequences
    make_column(array, out);
    return {};
  }

  FetchCounters counters() const override { return fetcher_->counters(); }

 private:
  Result<RowPiece> piece_of(const SampleRef& ref, std::size_t row) const {
    STOKER_ASSIGN(const TokenSpan at, plan_.options.windows[ref.dataset]->locate(ref.sample));
    return RowPiece{.dataset = ref.dataset,
                    .shard = at.shard,
                    .range = at.range,
                    .at_bytes = row * row_bytes_,
                    .row = static_cast<std::uint32_t>(row)};
  }

  /// Fails, or replaces the row.
  Status mend(std::size_t row, std::span<std::byte> narrow, BatchData& out,
              const std::stop_token& stop) {
    SampleRef& ref = out.samples[row];
    Status failure = statuses_[row].with_context(fmt::format("token window {}", ref.sample));
    if (plan_.options.on_error == OnError::raise) return failure;
    Status last;
    for (std::uint64_t attempt = 0; attempt < kReplacementTries; ++attempt) {
      ref.sample = replacement_sample(plan_.options.seed, out.epoch, out.positions[row], attempt,
                                      plan_.unit_count(ref.dataset));
      STOKER_ASSIGN(const RowPiece piece, piece_of(ref, 0));
      STOKER_TRY(fetcher_->plan_rows({&piece, 1}, row_bytes_, 1, replacement_fetch_));
      const std::span<std::byte> memory =
          out.spare.take(replacement_fetch_.memory_bytes, BufferPool::kAlignBytes);
      STOKER_TRY(fetcher_->read_rows(replacement_fetch_, memory,
                                     narrow.subspan(row * row_bytes_, row_bytes_), {&last, 1},
                                     stop));
      if (!last.ok()) continue;
      ++out.replaced;
      return {};
    }
    return no_replacement(failure, last);
  }

  void make_column(std::span<const std::byte> array, BatchData& out) const {
    if (out.stores.empty()) out.stores.push_back(std::make_unique<ColumnStore>());
    ColumnStore& store = *out.stores.front();
    store.name = column_.spec.name;
    store.shape.assign({out.samples.size(), column_.shape.front()});
    out.columns.assign(1, Column{.name = store.name,
                                 .layout = Column::Layout::array,
                                 .views = {},
                                 .dtype = column_.dtype,
                                 .shape = store.shape,
                                 .data = array,
                                 .offsets = {},
                                 .lengths = {}});
  }

  const RunPlan& plan_;
  std::unique_ptr<RecordFetcher> fetcher_;
  const PlannedColumn& column_;
  const Dtype dtype_;
  const std::size_t row_bytes_;
  std::vector<RowPiece> pieces_;
  std::vector<Status> statuses_;
  FetchPlan fetch_;
  FetchPlan replacement_fetch_;
};

}  // namespace

Result<std::unique_ptr<BatchMaker>> make_token_batches(const RunPlan& plan) {
  STOKER_ASSIGN(std::unique_ptr<RecordFetcher> fetcher,
                RecordFetcher::make(*plan.datasets, plan.options.fetch));
  return std::unique_ptr<BatchMaker>(std::make_unique<TokenBatches>(plan, std::move(fetcher)));
}

}  // namespace stoker::internal
