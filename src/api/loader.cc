#include "stoker/loader.h"

#include <fmt/format.h>

#include <cerrno>

#include "api/border.h"
#include "api/inside.h"
#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "dataset/loader/field_check.h"
#include "dataset/loader/loader_progress.h"
#include "dataset/loader/loader_run.h"
#include "dataset/loader/loader_setup.h"

namespace stoker {
namespace {

using internal::invalid;
using Items = std::vector<std::uint64_t>;
using ItemsOfEpoch = std::function<Result<Items>(std::uint64_t)>;

Status check_options(const LoaderOptions& options) {
  if (options.epochs == 0 || options.total_epochs == 0)
    return invalid("epochs and total_epochs are at least 1, or nothing for no end");
  if (options.items && options.items_of_epoch) return invalid("items or items_of_epoch: not both");
  if (options.items_of_epoch && options.epochs != 1)
    return invalid("items_of_epoch gives one epoch at a time: epochs must be 1");
  return {};
}

/// The parts that a loader reads, and what they say about order and columns.
Status add_data(const LoaderOptions& options, LoaderRequest& request) {
  const auto add = [&](const LoaderPart& part, std::optional<double> weight) {
    request.parts.push_back(part);
    request.parts.back().weight = weight;
  };
  const auto add_tokens = [&](const Tokens& tokens, std::optional<double> weight) {
    add(internal::TokensInside::state(tokens).part, weight);
    request.fields = {internal::TokensInside::field(tokens)};
  };
  const LoaderData::Value& data = options.data.value();
  bool is_tokens = false;
  if (const auto* paths = std::get_if<std::vector<std::string>>(&data)) {
    STOKER_ASSIGN(const Dataset dataset,
                  Dataset::open({.source = *paths,
                                 .policy = options.policy,
                                 .cache = options.cache,
                                 .cache_directory = options.cache_directory}));
    add(internal::DatasetInside::part(dataset), std::nullopt);
  } else if (const auto* dataset = std::get_if<Dataset>(&data)) {
    add(internal::DatasetInside::part(*dataset), std::nullopt);
  } else if (const auto* tokens = std::get_if<Tokens>(&data)) {
    is_tokens = true;
    add_tokens(*tokens, std::nullopt);
  } else if (const auto* mixture = std::get_if<Mixture>(&data)) {
    const internal::MixtureState& state = internal::MixtureInside::state(*mixture);
    request.order.sample_count = state.epoch_samples;
    for (const Mixture::Part& part : state.parts) {
      if (const auto* one = std::get_if<Dataset>(&part.data)) {
        add(internal::DatasetInside::part(*one), part.weight);
      } else {
        is_tokens = true;
        add_tokens(*std::get_if<Tokens>(&part.data), part.weight);
      }
    }
  }
  if (!is_tokens) request.fields = options.fields;
  if (is_tokens && !options.fields.empty())
    return invalid("Tokens have columns of their own: leave fields out");
  return {};
}

Result<LoaderRequest> request_of(const LoaderOptions& options) {
  STOKER_TRY(check_options(options));
  LoaderRequest request{.order = {.shuffle = options.shuffle,
                                  .seed = options.seed,
                                  .block_samples = options.block_samples,
                                  .window_blocks = options.window_blocks,
                                  .lanes = options.lanes},
                        .items = options.items,
                        .has_items_per_epoch = options.items_of_epoch != nullptr,
                        .batch_size = options.batch_size,
                        .global_batch_size = options.global_batch_size,
                        .micro_batch_size = options.micro_batch_size,
                        .rank = options.ranks.rank,
                        .world_size = options.ranks.world_size,
                        .local_world_size = options.ranks.local_world_size,
                        .tail = options.tail,
                        .memory_bytes = options.memory_bytes,
                        .end_epoch = options.total_epochs,
                        .on_error = options.on_error,
                        .threads = options.threads,
                        .depth = options.depth,
                        .engine = options.engine,
                        .held_warning = options.held_warning,
                        .held_limit = options.held_limit};
  STOKER_TRY(add_data(options, request));
  if (options.items_of_epoch) {
    STOKER_ASSIGN(request.items, options.items_of_epoch(0));
  }
  if (options.on_error == OnError::raise && !request.items)  // others may leave samples out
    STOKER_TRY(check_fields_exist(request.parts, request.fields));
  return request;
}

}  // namespace

/// next() waits without holding `mutex_`, so that the other methods never wait for a batch.
class Loader::Inside {
 public:
  Inside(LoaderSetup setup, const LoaderOptions& options)
      : items_of_epoch_(options.items_of_epoch),
        feed_(options.feed),
        setup_(std::move(setup)),
        progress_(options.epochs, options.total_epochs) {}
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() { close(); }

  Status here() const { return guard_.check("this loader"); }

  Result<std::optional<Batch>> next(Deadline deadline) {
    MutexLock turn(turn_);
    STOKER_ASSIGN(const std::shared_ptr<LoaderRun> run, running());
    if (!run) return std::optional<Batch>();
    NextBatch next = run->next(deadline);
    switch (next.kind) {
      case NextBatch::Kind::batch: break;
      case NextBatch::Kind::timeout:
        return Status(Code::unavailable, "no batch is ready yet", ETIMEDOUT);
      case NextBatch::Kind::end:
        return Status(Code::io_error, "the loader ended before its last epoch");
      case NextBatch::Kind::memory_held:
      case NextBatch::Kind::stopped:
      case NextBatch::Kind::failed: return next.status;
    }
    MutexLock lock(mutex_);
    if (run_ != run) return Status(Code::cancelled, "the loader was moved or closed meanwhile");
    progress_.receive(next.batch.cursor(), next.batch.micro_batch(), next.batch.last());
    return std::optional<Batch>(std::move(next.batch));
  }

  Status resume(const Cursor& cursor, std::span<const std::string_view> allow) {
    STOKER_TRY(here());
    STOKER_TRY(go_to_epoch(cursor.epoch));
    std::shared_ptr<LoaderRun> ended;
    MutexLock lock(mutex_);
    if (is_closed_) return closed();
    STOKER_TRY(setup_.resume(cursor, allow));
    ended = take_run();
    progress_.load(cursor);
    return {};
  }

  Status check(const Cursor& cursor, std::span<const std::string_view> allow) const {
    STOKER_TRY(here());
    if (items_of_epoch_) return {};  // it is not asked for its order
    MutexLock lock(mutex_);
    return check_cursor(cursor, setup_.wanted(cursor), allow);
  }

  Status set_epoch(std::uint64_t number) {
    STOKER_TRY(here());
    std::shared_ptr<LoaderRun> ended;
    MutexLock lock(mutex_);
    if (is_closed_) return closed();
    if (number > (UINT64_MAX >> 1) / progress_.epochs().value_or(1))
      return invalid(fmt::format("epoch {} is out of range", number));
    if (progress_.set_epoch(number, setup_.cut())) ended = take_run();
    return {};
  }

  void close() noexcept {
    if (!guard_.is_here()) return;
    std::shared_ptr<LoaderRun> ended;
    MutexLock lock(mutex_);
    is_closed_ = true;
    ended = take_run();
  }

  void count_from(std::uint64_t step) {
    if (!guard_.is_here()) return;
    MutexLock lock(mutex_);
    progress_.count_from(step, setup_.cut());
  }

  /// Returns what `read` makes of setup and progress; in a forked child, the default of its type.
  template <typename Read>
  auto look(const Read& read) const {
    using Value = decltype(read(setup_, progress_));
    if (!guard_.is_here()) return Value();
    MutexLock lock(mutex_);
    return read(setup_, progress_);
  }

  LoaderStats stats() const {
    if (!guard_.is_here()) return {};
    MutexLock lock(mutex_);
    return run_ ? run_->stats() : last_stats_;
  }

 private:
  static Status closed() { return Status(Code::cancelled, "the loader is closed"); }

  /// Ends the run. Its last owner joins the threads: destroy the result without the mutex.
  std::shared_ptr<LoaderRun> take_run() STOKER_REQUIRES(mutex_) {
    if (run_) {
      last_stats_ = run_->stats();
      run_->stop();
    }
    return std::exchange(run_, nullptr);
  }

  /// Asks for the items of an epoch, without the mutex, if they may be others.
  Status go_to_epoch(std::uint64_t epoch) {
    if (!items_of_epoch_) return {};
    {
      MutexLock lock(mutex_);
      if (items_epoch_ == epoch) return {};
    }
    STOKER_ASSIGN(Items items, items_of_epoch_(epoch));
    MutexLock lock(mutex_);
    STOKER_TRY(setup_.set_items(std::move(items)));
    items_epoch_ = epoch;
    return {};
  }

  /// Returns the run whose next batch is due; null at the end of an iteration.
  Result<std::shared_ptr<LoaderRun>> running() {
    STOKER_TRY(here());
    std::uint64_t epoch = 0;
    {
      MutexLock lock(mutex_);
      if (is_closed_) return closed();
      if (progress_.is_running() && progress_.iteration_is_done(setup_.cut())) {
        progress_.end();
        return std::shared_ptr<LoaderRun>();
      }
      if (!progress_.is_running() && !progress_.begin(setup_.cut()))
        return std::shared_ptr<LoaderRun>();
      epoch = progress_.upcoming(setup_.cut()).epoch;
    }
    STOKER_TRY(go_to_epoch(epoch));
    std::shared_ptr<LoaderRun> ended;
    MutexLock lock(mutex_);
    if (is_closed_) return closed();
    if (run_ && items_of_epoch_ && run_epoch_ != epoch) ended = take_run();
    if (!run_) {
      const LoaderProgress::Place place = progress_.upcoming(setup_.cut());
      STOKER_ASSIGN(LoaderRunOptions options,
                    setup_.options_at(setup_.cursor(place.epoch, place.position)));
      if (feed_) options.array_memory = internal::DeviceFeedInside::memory(*feed_);
      STOKER_ASSIGN(std::unique_ptr<LoaderRun> run, LoaderRun::start(std::move(options)));
      run_ = std::move(run);
      run_epoch_ = place.epoch;
    }
    return run_;
  }

  const ForkGuard guard_;
  const ItemsOfEpoch items_of_epoch_;
  const std::shared_ptr<DeviceFeed> feed_;
  Mutex turn_;  // of one next() after the other
  mutable Mutex mutex_;
  LoaderSetup setup_ STOKER_GUARDED_BY(mutex_);
  LoaderProgress progress_ STOKER_GUARDED_BY(mutex_);
  std::shared_ptr<LoaderRun> run_ STOKER_GUARDED_BY(mutex_);
  LoaderStats last_stats_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t run_epoch_ STOKER_GUARDED_BY(mutex_) = 0;    // where the run began
  std::uint64_t items_epoch_ STOKER_GUARDED_BY(mutex_) = 0;  // of the items that are set
  bool is_closed_ STOKER_GUARDED_BY(mutex_) = false;
};

using internal::at_border;

Loader::Loader(std::unique_ptr<Inside> inside) noexcept : inside_(std::move(inside)) {}
Loader::Loader(Loader&& other) noexcept = default;
Loader& Loader::operator=(Loader&& other) noexcept = default;
Loader::~Loader() = default;

Result<Loader> Loader::open(LoaderOptions options) {
  return at_border([&]() -> Result<Loader> {
    STOKER_ASSIGN(LoaderRequest request, request_of(options));
    STOKER_ASSIGN(LoaderSetup setup, LoaderSetup::make(std::move(request)));
    return Loader(std::make_unique<Inside>(std::move(setup), options));
  });
}

Result<std::optional<Batch>> Loader::next() {
  return at_border([&] { return inside_->next(Deadline::max()); });
}

Result<std::optional<Batch>> Loader::next_within(std::chrono::nanoseconds timeout) {
  return at_border([&] { return inside_->next(deadline_after(timeout)); });
}

std::uint64_t Loader::step() const {
  return inside_->look([](const auto& setup, const auto& at) { return at.step(setup.cut()); });
}

void Loader::count_from(std::uint64_t step) {
  inside_->count_from(step);
}

bool Loader::step_is_done() const {
  return inside_->look([](const auto&, const auto& at) { return at.amid() == 0; });
}

bool Loader::epoch_is_done() const {
  return inside_->look(
      [](const auto& setup, const auto& at) { return at.epoch_is_done(setup.cut()); });
}

Cursor Loader::cursor() const {
  return inside_->look([](const auto& setup, const auto& at) {
    return setup.cursor(at.at().epoch, at.at().position);
  });
}

Result<std::string> Loader::state() const {
  return at_border([&]() -> Result<std::string> {
    STOKER_TRY(inside_->here());
    const std::uint64_t amid = inside_->look([](const auto&, const auto& at) { return at.amid(); });
    if (amid > 0)
      return Status(Code::unavailable,
                    fmt::format("the position of a loader cannot be saved between micro-batches: "
                                "{} of this step were received. Save after Batch::last()",
                                amid));
    return format_cursor(cursor());
  });
}

Status Loader::resume(const Cursor& cursor, std::span<const std::string_view> allow) {
  return at_border([&] { return inside_->resume(cursor, allow); });
}

Status Loader::resume(std::string_view state, std::span<const std::string_view> allow) {
  return at_border([&]() -> Status {
    STOKER_ASSIGN(const Cursor cursor, parse_cursor(state));
    return inside_->resume(cursor, allow);
  });
}

Status Loader::check(const Cursor& cursor, std::span<const std::string_view> allow) const {
  return at_border([&] { return inside_->check(cursor, allow); });
}

Status Loader::set_epoch(std::uint64_t number) {
  return at_border([&] { return inside_->set_epoch(number); });
}

std::optional<std::uint64_t> Loader::size() const {
  return inside_->look([](const auto& setup, const auto& at) -> std::optional<std::uint64_t> {
    if (!at.epochs()) return std::nullopt;
    return *at.epochs() * setup.cut().micro_batches_from(0);
  });
}

std::uint64_t Loader::batches_per_epoch() const {
  return inside_->look(
      [](const auto& setup, const auto&) { return setup.cut().micro_batches_from(0); });
}

std::uint64_t Loader::steps_per_epoch() const {
  return inside_->look([](const auto& setup, const auto&) { return setup.cut().batches_from(0); });
}

std::uint64_t Loader::micro_batches_per_step() const {
  return inside_->look(
      [](const auto& setup, const auto&) { return setup.cut().micro_batches_per_step(); });
}

std::uint64_t Loader::global_batch_size() const {
  return inside_->look(
      [](const auto& setup, const auto&) { return setup.cut().options().global_batch_size; });
}

std::string Loader::cache_forecast() const {
  return inside_->look([](const auto& setup, const auto&) { return setup.cache_forecast(); });
}

std::size_t Loader::memory_needed() const {
  return inside_->look([](const auto& setup, const auto&) { return setup.memory_needed(); });
}

std::size_t Loader::memory_bytes() const {
  return inside_->look([](const auto& setup, const auto&) { return setup.memory_bytes(); });
}

LoaderStats Loader::stats() const {
  return inside_->stats();
}

void Loader::close() noexcept {
  if (inside_) inside_->close();
}

}  // namespace stoker
