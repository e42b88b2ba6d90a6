/// \file
/// Assembles a loader: takes what the user asks for, fills in every default, and makes the options
/// of its runs. The command line and Python both use it, so that a cursor of one resumes in the
/// other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/loader/loader_order.h"
#include "dataset/loader/loader_part.h"
#include "dataset/loader/loader_run.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/order.h"
#include "stoker/cursor.h"
#include "stoker/status.h"

namespace stoker {

/// The names of settings for messages, as the user knows them.
struct SettingNames {
  std::string_view batch_size = "batch_size";
  std::string_view global_batch_size = "global_batch_size";
  std::string_view micro_batch_size = "micro_batch_size";  ///< Empty if there is no such setting.
  std::string_view memory_bytes = "memory_bytes";
};

/// The settings that the user asks for. LoaderSetup fills in the rest.
struct LoaderRequest {
  std::vector<LoaderPart> parts = {};

  /// The order, with 0 for defaults. `sample_count` is the epoch of a mixture, and ignored
  /// otherwise. `seed` is also used for OnError::skip and for decoders.
  OrderOptions order = {};
  /// Instead of an order: a list of samples of one dataset. Only the seed of `order` is then used.
  std::optional<std::vector<std::uint64_t>> items = {};
  /// The list is for one epoch: a run ends with its epoch, and set_items() sets the next list.
  bool has_items_per_epoch = false;

  /// Batch size per rank, or over all ranks: exactly one is set, the other is 0. There is no
  /// default; the command line has its own.
  std::uint64_t batch_size = 0;
  std::uint64_t global_batch_size = 0;
  /// Cuts each rank's part of a global batch into micro-batches of this size; 0: it is not cut. The
  /// memory is that of micro-batches. The samples, the global batches and the cursor stay the same.
  std::uint64_t micro_batch_size = 0;
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::uint64_t local_world_size = 1;  ///< Ranks that share the memory of this machine.
  std::optional<Tail> tail = {};       ///< Default: drop if shuffled, keep if not.
  /// All memory for batches on this machine, shared by its ranks. Default: kMemoryDefaultBytes, or
  /// more if more is needed.
  std::optional<std::uint64_t> memory_bytes = {};

  /// As in LoaderRunOptions.
  std::optional<std::uint64_t> end_epoch = 1;
  std::vector<FieldSpec> fields = {};
  OnError on_error = OnError::raise;
  std::size_t threads = 0;
  std::size_t depth = 0;
  EngineKind engine = EngineKind::automatic;
  nanoseconds held_warning{1'000'000'000};
  nanoseconds held_limit{30'000'000'000};

  SettingNames names = {};
};

/// Returns the global batch size. `invalid_argument`: neither size or both are given, a batch is
/// too large, the world size is 0, or the batch cannot be divided among the ranks.
Result<std::uint64_t> global_batch_of(const LoaderRequest& request);
/// Returns the requested tail, or the default.
Tail tail_of(const LoaderRequest& request) noexcept;

/// A loader that can be run from any of its cursors.
///
/// Thread safety: const methods from any thread.
class LoaderSetup {
 public:
  /// Per machine.
  static constexpr std::size_t kMemoryDefaultBytes = std::size_t{512} << 20;

  /// Checks the request, makes the order and determines the memory. `invalid_argument` for settings
  /// that cannot work; for too little memory, with the memory needed.
  ///
  /// Lanes that do not divide the batch do not fail yet: they may be those of a run with another
  /// batch size, whose cursor is then passed to resume(). Otherwise options_at() fails.
  static Result<LoaderSetup> make(LoaderRequest request);

  /// Returns a cursor of this run.
  Cursor cursor(std::uint64_t epoch, std::uint64_t position) const;
  /// Returns the options of a run that starts at `cursor`, which cursor() returned.
  Result<LoaderRunOptions> options_at(const Cursor& cursor) const;

  /// Returns a cursor of this run for check_cursor(): numbers that were not requested are 0, and
  /// the fingerprint is that of version 0.1 if `saved` has it.
  Cursor wanted(const Cursor& saved) const;
  /// Takes numbers that were not requested from `saved`: lanes, deal, blocks. The run then
  /// continues at cursor(saved.epoch, saved.position). Fails as check_cursor() does; a failure
  /// changes nothing.
  Status resume(const Cursor& saved, std::span<const std::string_view> allow = {});

  /// Sets the list for the next epoch of a loader that was made from a list. Fails as make() does;
  /// a failure changes nothing.
  Status set_items(std::vector<std::uint64_t> items);

  const std::shared_ptr<const SampleOrder>& order() const noexcept { return schedule_->order; }
  const OrderOptions& order_options() const noexcept { return schedule_->options; }
  const BatchCut& cut() const noexcept { return schedule_->cut; }
  /// What an epoch will read from the source of datasets that have a cache, in words; empty without
  /// one. This machine has `local_world_size` ranks.
  std::string cache_forecast() const;
  const Digest128& fingerprint() const noexcept { return prints_.now; }
  std::size_t memory_needed() const noexcept { return memory_needed_; }
  std::size_t memory_bytes() const noexcept { return memory_bytes_; }  ///< For this process.

 private:
  /// The positions of an epoch, and how they are divided into batches.
  struct Schedule {
    OrderOptions options;
    std::shared_ptr<const SampleOrder> order;
    BatchCut cut;
  };
  /// Fingerprints of this version and of version 0.1.
  struct Prints {
    Digest128 now;
    Digest128 old;
  };
  /// A list, as an order of the dataset's own samples.
  struct List {
    std::shared_ptr<const SampleOrder> order;
    Prints prints;
  };

  explicit LoaderSetup(LoaderRequest request) : request_(std::move(request)) {}

  Status set_data();
  Result<Prints> prints_of_data() const;
  Result<std::shared_ptr<const SampleOrder>> selected(
      std::shared_ptr<const SampleOrder> order) const;
  Result<List> make_list(std::vector<std::uint64_t> items) const;
  /// `list`: null, or the order of a list.
  Result<std::shared_ptr<const Schedule>> make_schedule(
      const OrderOptions& request, const std::shared_ptr<const SampleOrder>& list) const;
  Status set_first_line();
  Status set_memory();
  LoaderRunOptions run_options(const Cursor& cursor) const;

  LoaderRequest request_;  // with batch size and tail filled in; list_ replaces `items`
  OrderBasis basis_;
  std::vector<std::uint64_t> whole_counts_;
  Prints data_prints_;
  Prints prints_;  // with the list, if there is one
  std::shared_ptr<const SampleOrder> list_;
  std::shared_ptr<const Schedule> schedule_;
  Status unfit_;  // why the requested lanes cannot be used
  std::size_t memory_needed_ = 0;
  std::size_t memory_bytes_ = 0;
};

}  // namespace stoker
