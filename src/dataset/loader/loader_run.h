/// \file
/// LoaderRun: turns the positions of an order into batches, in native threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "dataset/fetch/record_fetch.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/order.h"
#include "dataset/shard_dataset.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_windows.h"
#include "io/engine/arena.h"
#include "stoker/batch.h"
#include "stoker/cursor.h"
#include "stoker/fields.h"
#include "stoker/loader_stats.h"
#include "stoker/status.h"
#include "stoker/tokens.h"

namespace stoker {

struct LoaderRunOptions {
  /// The datasets to read; SampleRef::dataset is an index into this list.
  std::vector<std::shared_ptr<const ShardDataset>> datasets = {};
  /// To read token windows instead of samples: the windows of each dataset, all of the same length.
  std::vector<std::shared_ptr<const TokenWindows>> windows = {};
  /// Or to read rows of whole documents: the packs of each dataset, all of the same length. Batches
  /// then have the columns kPositionIds and kDocumentIds in addition to the tokens.
  std::vector<std::shared_ptr<const TokenBins>> packs = {};

  /// See make_order(), make_mixture_order(), make_explicit_order(). Null, with one dataset: the
  /// order that `cursor.order` describes, with defaults chosen from the data (loader_order.h).
  std::shared_ptr<const SampleOrder> order = {};
  /// How positions become batches: global batch size, rank, world size, micro-batch size, tail.
  /// `epoch_samples` is ignored: the order's is used.
  BatchCutOptions cut = {};
  /// Where to start: epoch and position, with the first micro-batch of a step. The other fields are
  /// copied to the cursor of every batch, with the tail and global batch size of `cut`.
  Cursor cursor = {};
  /// The first epoch that is not run; nothing: endless. If `cursor.epoch` is not below it, the run
  /// has no batches.
  std::optional<std::uint64_t> end_epoch = 1;

  /// The columns. Empty: every field of the samples, each as FieldKind::own.
  std::vector<FieldSpec> fields = {};

  OnError on_error = OnError::raise;
  std::uint64_t seed = 0;  ///< Of OnError::skip and of decoders.

  /// All memory for batches: in progress, ready, and held by the caller.
  std::size_t memory_bytes = std::size_t{256} << 20;
  /// Allocates the part of it for the batches' arrays; empty: ordinary memory. For memory that is
  /// pinned for a device, which takes time: not more than `depth` batches can use, and 1 GiB unless
  /// three batches need more.
  ArenaMaker array_memory = {};
  std::size_t threads = 0;  ///< 0: tuned from stalls, up to min(cores, 16).
  std::size_t depth = 0;    ///< Batches in progress or ready; 0: tuned from stalls, up to 64.
  FetchOptions fetch = {};

  nanoseconds held_warning{1'000'000'000};  ///< See LoaderRun::next().
  nanoseconds held_limit{30'000'000'000};
};

/// The result of next().
struct NextBatch {
  enum class Kind : std::uint8_t {
    batch,        ///< `batch` is the next batch.
    end,          ///< There are no more batches.
    timeout,      ///< The deadline passed; call next() again.
    memory_held,  ///< The caller's batches use the memory; `status` says how to fix that.
    stopped,      ///< stop() was called.
    failed,       ///< `status` says why; every later call returns the same.
  };
  Kind kind = Kind::end;
  Batch batch = {};
  Status status = {};
};

/// One run over an order, starting at a cursor. Its threads fetch, convert and collate ahead of the
/// caller, within `memory_bytes`. The batches depend on the options only, never on the number of
/// threads or on timing.
///
/// Thread safety: every method from any thread. Several threads may call next(): each batch goes to
/// one of them. In a forked child next() fails with `unsupported`, stop() and the destructor do
/// nothing.
class LoaderRun {
 public:
  /// The minimum of `memory_bytes` for these options: three worst-case batches and the largest
  /// sample.
  static Result<std::size_t> memory_needed(const LoaderRunOptions& options);

  /// Checks the options, allocates the memory, starts the threads. `invalid_argument` for options
  /// that cannot work, with what is needed and what was given; `unavailable` if a thread cannot be
  /// started. An engine that cannot be made fails next() instead.
  static Result<std::unique_ptr<LoaderRun>> start(LoaderRunOptions options);

  LoaderRun(const LoaderRun&) = delete;
  LoaderRun& operator=(const LoaderRun&) = delete;
  /// Stops the run and joins its threads. Batches that were handed over stay valid.
  ~LoaderRun();

  /// Returns the next batch, in order. Waits for it until `deadline`.
  ///
  /// If a sample fails under OnError::raise, the call that would have returned its batch fails,
  /// with shard, offset, key and field; all batches before it are returned first.
  ///
  /// If it waits for memory that the caller's own batches use, it counts a warning after
  /// `held_warning` of such waiting and returns `memory_held` after `held_limit`, summed over
  /// calls. Releasing batches lets it continue, also after that.
  NextBatch next(Deadline deadline = Deadline::max());

  /// Ends the run: threads stop soon, and a waiting next() returns `stopped`. Ready batches are
  /// dropped. May be called at any time and more than once, also from a signal-handling thread.
  void stop() noexcept;

  /// Number of batches, or micro-batches, of this run, from its cursor to `end_epoch`; nothing if
  /// endless.
  std::optional<std::uint64_t> batch_count() const noexcept;
  /// Returns a snapshot of the counters; all 0 in a forked child.
  LoaderStats stats() const;

 private:
  class Threads;
  explicit LoaderRun(std::unique_ptr<Threads> run);
  std::unique_ptr<Threads> run_;
};

}  // namespace stoker
