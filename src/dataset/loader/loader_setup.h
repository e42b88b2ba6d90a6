/// \file
/// Assembles a loader: takes what somebody asks for, puts in every default, and makes the options
/// of its runs. The command and Python both call it, so that a cursor of one resumes in the other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataset/loader/loader.h"
#include "dataset/loader/loader_order.h"
#include "dataset/loader/loader_part.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/cursor.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// What users call the settings that messages name.
struct SettingNames {
  std::string_view batch_size = "batch_size";
  std::string_view global_batch_size = "global_batch_size";
  std::string_view memory_bytes = "memory_bytes";
};

/// What is asked for. LoaderSetup puts in what is left out.
struct LoaderWish {
  std::vector<LoaderPart> parts = {};

  /// The order, with 0 for what is left open. `sample_count` is the epoch of a mixture; otherwise
  /// it is not looked at. `seed` is also that of OnError::skip.
  OrderOptions order = {};
  /// In place of an order: the samples of one dataset, as a list. Of `order` the seed counts.
  std::optional<std::vector<std::uint64_t>> items = {};
  /// The list is that of one epoch: runs end with theirs, and set_items() gives another list.
  bool has_items_per_epoch = false;

  /// Samples of a batch on each rank, or over all ranks: one of them, and the other is 0. There is
  /// no default: the command fills in its own.
  std::uint64_t batch_size = 0;
  std::uint64_t global_batch_size = 0;
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::uint64_t local_world_size = 1;  ///< Ranks that share the memory of this machine.
  std::optional<Tail> tail = {};       ///< Default: drop if shuffled, keep if not.
  /// All memory of batches on this machine, shared by its ranks. Default: kMemoryDefaultBytes, or
  /// what is needed if that is more.
  std::optional<std::uint64_t> memory_bytes = {};

  /// As in LoaderOptions.
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

/// Samples of a step over all ranks. `invalid_argument`: neither size or both are given, a batch is
/// too large, or it cannot be divided among the ranks. Looks at nothing else.
Result<std::uint64_t> global_batch_of(const LoaderWish& wish);
/// The tail that was asked for, or the default.
Tail tail_of(const LoaderWish& wish) noexcept;

/// A loader that can be run, from any cursor of it.
///
/// Thread safety: const methods from any thread.
class LoaderSetup {
 public:
  /// Of a machine.
  static constexpr std::size_t kMemoryDefaultBytes = std::size_t{512} << 20;

  /// Checks what was asked for, makes the order and settles the memory. Reads at most one sample.
  /// `invalid_argument` for what can never work; too little memory with what is needed.
  ///
  /// Lanes that do not divide the batch are no failure yet: they may be those of a run that had
  /// another one, whose cursor resume() takes. Without it, options_at() fails.
  static Result<LoaderSetup> make(LoaderWish wish);

  /// A cursor of this run.
  Cursor cursor(std::uint64_t epoch, std::uint64_t position) const;
  /// The options of a run from `cursor` on, which is one of cursor().
  Result<LoaderOptions> options_at(const Cursor& cursor) const;

  /// A cursor of this run for check_cursor(): leaves open what was not asked for, and what `saved`
  /// does not say if it is one of version 0.1.
  Cursor wanted(const Cursor& saved) const;
  /// Takes what was left open from `saved`: lanes, their deal, blocks. The run then continues at
  /// cursor(saved.epoch, saved.position). Fails as check_cursor() does, and then changes nothing.
  Status resume(const Cursor& saved, std::span<const std::string_view> allow = {});

  /// Another list, for the next epoch of a loader whose wish has one. Fails as make() does, and
  /// then changes nothing.
  Status set_items(std::vector<std::uint64_t> items);

  const std::shared_ptr<const SampleOrder>& order() const noexcept { return line_->order; }
  const OrderOptions& order_options() const noexcept { return line_->options; }
  const BatchCut& cut() const noexcept { return line_->cut; }
  const Digest128& fingerprint() const noexcept { return prints_.now; }
  std::size_t memory_needed() const noexcept { return memory_needed_; }
  std::size_t memory_bytes() const noexcept { return memory_bytes_; }  ///< Of this process.

 private:
  /// The positions of an epoch, and how they are cut.
  struct Line {
    OrderOptions options;
    std::shared_ptr<const SampleOrder> order;
    BatchCut cut;
  };
  /// Fingerprints, as they are and as version 0.1 made them.
  struct Prints {
    Digest128 now;
    Digest128 old;
  };
  /// A list as an order of the dataset's own samples.
  struct List {
    std::shared_ptr<const SampleOrder> order;
    Prints prints;
  };

  explicit LoaderSetup(LoaderWish wish) : wish_(std::move(wish)) {}

  Status set_data();
  Result<Prints> prints_of_data() const;
  Result<std::shared_ptr<const SampleOrder>> selected(
      std::shared_ptr<const SampleOrder> order) const;
  Result<List> make_list(std::vector<std::uint64_t> items) const;
  /// `list`: null, or the order of a list.
  Result<std::shared_ptr<const Line>> make_line(
      const OrderOptions& wish, const std::shared_ptr<const SampleOrder>& list) const;
  Status set_first_line();
  Status set_memory();
  LoaderOptions run_options(const Cursor& cursor) const;

  LoaderWish wish_;  // its sizes and its tail filled in; `items` is empty: list_ has them
  OrderSource source_;
  std::vector<std::uint64_t> whole_counts_;
  Prints data_prints_;
  Prints prints_;  // with the list's
  std::shared_ptr<const SampleOrder> list_;
  std::shared_ptr<const Line> line_;
  Status unfit_;  // why the lanes that were asked for are none
  std::size_t memory_needed_ = 0;
  std::size_t memory_bytes_ = 0;
};

}  // namespace stoker
