/// \file
/// Loader: batches of a dataset, prepared in advance by native threads, resumable anywhere.
///
///     auto loader = stoker::Loader::open(
///         {.data = {"/data/shards"},
///          .global_batch_size = 64,
///          .seed = 7,
///          .fields = {{"jpg", stoker::FieldKind::bytes}, {"cls", stoker::FieldKind::int64}}});
///     if (!loader.ok()) return loader.status();
///     for (;;) {
///       auto batch = loader->next();
///       if (!batch.ok()) return batch.status();
///       if (!*batch) break;  // the epoch is over
///       auto labels = (*batch)->values<std::int64_t>("cls");
///     }
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stoker/api.h"
#include "stoker/batch.h"
#include "stoker/cursor.h"
#include "stoker/dataset.h"
#include "stoker/digest.h"
#include "stoker/fields.h"
#include "stoker/io.h"
#include "stoker/loader_stats.h"
#include "stoker/mixture.h"
#include "stoker/order.h"
#include "stoker/ranks.h"
#include "stoker/status.h"
#include "stoker/tokens.h"

namespace stoker {

class DeviceFeed;  // stoker/device.h

/// What a loader reads: the paths of shards, or a Dataset, Tokens or Mixture.
class LoaderData {
 public:
  // NOLINTBEGIN(google-explicit-constructor): {.data = dataset}, {.data = "shards"}
  LoaderData(std::initializer_list<std::string> paths) : value_(std::vector<std::string>(paths)) {}
  LoaderData(std::vector<std::string> paths) : value_(std::move(paths)) {}
  LoaderData(std::string path) : value_(std::vector<std::string>{std::move(path)}) {}
  LoaderData(const char* path) : value_(std::vector<std::string>{path}) {}
  LoaderData(Dataset dataset) : value_(std::move(dataset)) {}
  LoaderData(Tokens tokens) : value_(std::move(tokens)) {}
  LoaderData(Mixture mixture) : value_(std::move(mixture)) {}
  // NOLINTEND(google-explicit-constructor)

  using Value = std::variant<std::vector<std::string>, Dataset, Tokens, Mixture>;
  const Value& value() const noexcept { return value_; }

 private:
  Value value_;
};

/// The order of samples depends on these alone, and neither on the number of ranks nor on that of
/// threads. Defaults are those of Python.
struct LoaderOptions {
  LoaderData data;

  /// Samples in a batch on each rank, or in a step over all ranks: exactly one is given.
  std::uint64_t batch_size = 0;
  std::uint64_t global_batch_size = 0;
  /// Cuts each rank's part of a step into batches of this size, for gradient accumulation. Steps
  /// and saved positions are the same with any size. 0: parts are not cut.
  std::uint64_t micro_batch_size = 0;

  Shuffle shuffle = Shuffle::global;
  std::uint64_t seed = 0;  ///< Of the order, of decoders and of OnError::skip.
  /// Shuffle::block: samples in a block, blocks that are mixed with each other, and lanes; 0:
  /// chosen from the data.
  std::uint64_t block_samples = 0;
  std::uint64_t window_blocks = 0;
  std::uint64_t lanes = 0;

  /// Epochs of one iteration, after which next() returns nothing once; nothing: one iteration
  /// without end.
  std::optional<std::uint64_t> epochs = 1;
  /// Epochs of the whole run, over every iteration and every restart of the program. Default: no
  /// limit.
  std::optional<std::uint64_t> total_epochs = {};
  /// Default: drop if shuffled, keep if not.
  std::optional<Tail> tail = {};

  /// The columns. Empty: every field of the samples, each as FieldKind::own. Must be empty for
  /// Tokens, which have the column kTokens, and for packs also kPositionIds and kDocumentIds.
  std::vector<FieldSpec> fields = {};

  /// Which part of each step this process has.
  Ranks ranks = {};

  /// All memory for batches on this machine, shared by its ranks. Default: 512 MiB, or what is
  /// needed if that is more.
  std::optional<std::uint64_t> memory_bytes = {};
  std::size_t threads = 0;  ///< 0: adapted to the caller's waits.
  std::size_t depth = 0;    ///< Batches to prepare ahead; 0: adapted in the same way.
  /// For data that is given as paths; a Dataset has one of its own.
  CachePolicy policy = CachePolicy::automatic;
  EngineKind engine = EngineKind::automatic;
  OnError on_error = OnError::raise;

  /// Instead of an order: the numbers of samples of one dataset, the same in each epoch and on
  /// every rank.
  std::optional<std::vector<std::uint64_t>> items = {};
  /// Or a function that returns them for each epoch, called in open(), next() and resume(), on the
  /// calling thread. `epochs` must be 1. What it throws is `invalid_argument`.
  std::function<Result<std::vector<std::uint64_t>>(std::uint64_t epoch)> items_of_epoch = {};

  /// As in DatasetOptions, for data that is given as paths.
  std::string cache_directory = {};
  std::optional<Cache> cache = {};

  /// Batches will be copied with it: their arrays are in memory that the device reads, at most 1
  /// GiB of `memory_bytes` unless three batches need more. Nothing: ordinary memory.
  std::shared_ptr<DeviceFeed> feed = {};

  /// How long next() waits for memory of batches that the caller keeps: it then counts a warning,
  /// or returns `unavailable`.
  std::chrono::nanoseconds held_warning{1'000'000'000};
  std::chrono::nanoseconds held_limit{30'000'000'000};
};

/// Batches of a dataset, in the order that the options define. Its threads fetch, convert and
/// collate ahead of the caller, within the memory. A run that is resumed at any step, on any number
/// of ranks, continues as if it had never stopped.
///
/// Thread safety: every method from any thread. Several may call next(): each batch goes to one.
/// In a forked child, every method that returns a Status or Result returns `unsupported`, and the
/// destructor does nothing: open another loader there. Signals: no handler is
/// installed and none is blocked; a handler of the program may run on a thread of the loader.
/// The destructor is close(): a loader writes nothing, so nothing is lost. Batches that were handed
/// out stay valid.
class STOKER_API Loader {
 public:
  /// Opens the data and checks the options; reads a sample where fields need it. Threads are
  /// started by the first next(). `invalid_argument` for options that can never work, and for
  /// fields that samples do not have.
  static Result<Loader> open(LoaderOptions options);
  Loader(Loader&& other) noexcept;
  Loader& operator=(Loader&& other) noexcept;
  ~Loader();

  /// Returns the next batch; nothing at the end of an iteration. The call after that begins the
  /// next one, so a loop that ends when there is no batch is one epoch (or `epochs`), and the loop
  /// after it the next. With `total_epochs` done, every call returns nothing: several threads need
  /// it, because the end of an iteration is returned to one of them, and the next call begins
  /// another one.
  ///
  /// If a sample cannot be read, the call that would have returned its batch fails, with shard,
  /// offset, key and field, and so does each later one, until resume() or set_epoch(). `cancelled`
  /// after close(). `unavailable` if the batches that the caller still holds use the memory:
  /// release one, and call it again.
  Result<std::optional<Batch>> next();
  /// The same, but waits only so long: `unavailable`, with ETIMEDOUT, if no batch is ready then.
  Result<std::optional<Batch>> next_within(std::chrono::nanoseconds timeout);

  /// The number of the step that the last batch belongs to. The first of a run is 1, and a resumed
  /// run continues the count from its cursor: before its first batch this is the number of steps
  /// that the cursor has behind it.
  std::uint64_t step() const;
  /// Counts on from a step that a checkpoint has recorded, after resume(): the batch size may have
  /// been different then.
  void count_from(std::uint64_t step);
  /// Whether the last batch was the last of its step, as Batch::last() says. Also if there was
  /// none: the position can be saved.
  bool step_is_done() const;
  /// Whether the last batch was the last of its epoch, cursor().epoch.
  bool epoch_is_done() const;

  /// The position of the run: the steps that were received completely. Batches that are only
  /// prepared do not count. The same on every rank.
  Cursor cursor() const;
  /// The same for a checkpoint: format_cursor(), which Python's Loader.load_state_dict() takes as
  /// it is, and whose dict is Loader.state_dict(). `unavailable` if some, but not all micro-batches
  /// of a step were received: save after the last().
  Result<std::string> state() const;

  /// Makes the next batch the one after a saved position. `invalid_argument` if it is from another
  /// run; the message has every difference. `allow` names those that may be, because the order of
  /// samples is still the same: "global_batch_size", "tail", and "fingerprint" if you know that the
  /// samples are the same. After a failure nothing has changed.
  Status resume(const Cursor& cursor, std::span<const std::string_view> allow = {});
  /// The same from state(), or from the JSON of Python's state_dict().
  Status resume(std::string_view state, std::span<const std::string_view> allow = {});
  /// Returns what resume() would, and changes nothing.
  Status check(const Cursor& cursor, std::span<const std::string_view> allow = {}) const;

  /// Makes the next batch the first of the iteration with this number: with `epochs` 1 or nothing,
  /// of that epoch. If the next batch is one of that iteration already, as after resume(), nothing
  /// changes.
  Status set_epoch(std::uint64_t number);

  /// Batches, or micro-batches, of one iteration; nothing if it has no end.
  std::optional<std::uint64_t> size() const;
  /// Batches or micro-batches of an epoch, and its steps: the same on every rank.
  std::uint64_t batches_per_epoch() const;
  std::uint64_t steps_per_epoch() const;
  /// To divide the loss by. The short last step of an epoch (Tail::keep) may have fewer.
  std::uint64_t micro_batches_per_step() const;
  std::uint64_t global_batch_size() const;
  /// The least memory that this process needs, and what it has.
  std::size_t memory_needed() const;
  std::size_t memory_bytes() const;

  /// What an epoch will read from the source of data that have a Cache, in words, and whether
  /// another order would read less; empty without a cache.
  std::string cache_forecast() const;
  /// Figures since the current run began: open(), resume(), set_epoch().
  LoaderStats stats() const;

  /// Ends its threads and waits for them. May be called at any time and more than once; a waiting
  /// next() returns `cancelled`.
  void close() noexcept;

 private:
  class [[gnu::visibility("hidden")]] Inside;
  explicit Loader(std::unique_ptr<Inside> inside) noexcept;
  std::unique_ptr<Inside> inside_;
};

}  // namespace stoker
