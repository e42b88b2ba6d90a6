/// \file
/// Loader: turns the positions of an order into batches, in native threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "dataset/batch/batch.h"
#include "dataset/batch/field_spec.h"
#include "dataset/dataset.h"
#include "dataset/fetch/record_fetch.h"
#include "dataset/loader/loader_stats.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/cursor.h"
#include "dataset/order/order.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_windows.h"
#include "stoker/status.h"

namespace stoker {

/// What to do about a sample that cannot be read or has not the fields asked for.
enum class OnError : std::uint8_t {
  raise,  ///< The batch fails, and the loader with it.
  /// Another sample of the same dataset takes its place, chosen by (seed, epoch, position): batches
  /// keep their shapes, and every run and rank chooses alike. Counted in LoaderStats::replaced.
  skip,
};

/// Columns of packs, int32 and of the shape of the tokens: how far each token is from the begin of
/// its piece of a document, and which piece of the row that is, from 0. What fills a row up counts
/// as a piece of its own, whose number is -1.
inline constexpr std::string_view kPositionIds = "position_ids";
inline constexpr std::string_view kDocumentIds = "document_ids";

struct LoaderOptions {
  /// What SampleRef::dataset counts.
  std::vector<std::shared_ptr<const Dataset>> datasets = {};
  /// Windows over each of them, for token windows instead of samples; all of one length.
  std::vector<std::shared_ptr<const TokenWindows>> windows = {};
  /// Or packs of each of them, for rows of whole documents; all of one length. Batches then have
  /// the columns that kPositionIds and kDocumentIds name beside that of the tokens.
  std::vector<std::shared_ptr<const TokenBins>> packs = {};

  /// See make_order(), make_mixture_order(), make_explicit_order(). Null, with one dataset: the
  /// order that `cursor.order` describes, with its defaults from the data (loader_order.h).
  std::shared_ptr<const SampleOrder> order = {};
  /// How positions become batches: global batch, rank, world size, tail. `epoch_samples` is the
  /// order's, whatever is said here.
  BatchCutOptions cut = {};
  /// Where to begin: epoch and position. The rest is carried along in every batch's cursor, with
  /// tail and global batch of `cut`.
  Cursor cursor = {};
  /// The first epoch not to be run; nothing: endless. With `cursor.epoch` past it, there is none.
  std::optional<std::uint64_t> end_epoch = 1;

  /// The columns. Without any: every field that samples have, each as FieldKind::own.
  std::vector<FieldSpec> fields = {};

  OnError on_error = OnError::raise;
  std::uint64_t seed = 0;  ///< For OnError::skip.

  /// All the memory of batches: under way, ready, and held by the caller.
  std::size_t memory_bytes = std::size_t{256} << 20;
  std::size_t threads = 0;  ///< 0: tuned from stalls, up to the number of cores.
  std::size_t depth = 0;  ///< Batches under way or ready; 0: tuned from stalls, within the memory.
  FetchOptions fetch = {};

  nanoseconds held_warning{1'000'000'000};  ///< See Loader::next().
  nanoseconds held_limit{30'000'000'000};
};

/// What next() answers.
struct NextBatch {
  enum class Kind : std::uint8_t {
    batch,        ///< `batch` is the next one.
    end,          ///< There are no more.
    timeout,      ///< Not in time; ask again.
    memory_held,  ///< The caller's batches hold the memory: `status` says how to cure it. Ask
                  ///< again.
    stopped,      ///< stop() was called.
    failed,       ///< `status`; every later call answers the same.
  };
  Kind kind = Kind::end;
  Batch batch = {};
  Status status = {};
};

/// One run over an order, from a cursor on. Its threads fetch, convert and collate ahead of the
/// caller, within `memory_bytes`; what they hand over depends on the options alone, never on the
/// number of threads or on timing.
///
/// Thread safety: every method from any thread. Several may call next(): each batch goes to one of
/// them. In a forked child next() fails with `unsupported`, stop() and the destructor do nothing.
class Loader {
 public:
  /// The least `memory_bytes` for these options: three worst-case batches and the largest sample.
  static Result<std::size_t> memory_needed(const LoaderOptions& options);

  /// Checks the options, takes the memory, starts the threads. `invalid_argument` for options that
  /// can never work, with what is needed and what was given; `unsupported` where no engine works.
  static Result<std::unique_ptr<Loader>> start(LoaderOptions options);

  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  /// Stops and joins. Batches that were handed over stay valid.
  ~Loader();

  /// The next batch: the n-th call gives batch n. Waits for it until `deadline`.
  ///
  /// A sample that fails under OnError::raise makes the call fail that would have returned its
  /// batch, with shard, offset, key and field; all batches before it come first.
  ///
  /// If it waits for memory that the caller's own batches hold, it counts a warning after
  /// `held_warning` of such waiting and answers `memory_held` after `held_limit`, over as many
  /// calls as they take. Giving batches back lets it go on, also after that.
  NextBatch next(Deadline deadline = Deadline::max());

  /// Ends the run: threads stop soon, a next() that waits returns `stopped`. Batches that were
  /// ready are dropped. May be called at any moment, more than once, also from a signal-handling
  /// thread.
  void stop() noexcept;

  /// Batches of this run, from its cursor to `end_epoch`; nothing if endless.
  std::optional<std::uint64_t> batch_count() const noexcept;
  /// A consistent view of the counters, any time.
  LoaderStats stats() const;

 private:
  class Run;
  explicit Loader(std::unique_ptr<Run> run);
  std::unique_ptr<Run> run_;
};

}  // namespace stoker
