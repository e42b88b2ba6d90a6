#include "api/checkpointer_impl.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "api/border.h"
#include "api/cursor_tree.h"
#include "api/restore_attempt.h"
#include "api/tree_tensors.h"
#include "checkpoint/device/device_copier.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "formats/json/json.h"
#include "formats/plain_name.h"
#include "formats/utf8.h"
#include "stoker/loader.h"
#include "stoker/version.h"

namespace stoker {
namespace {

constexpr std::uint64_t kReadMemoryBytes = std::uint64_t{128} << 20;
constexpr std::size_t kStepsTold = 10;
/// Of a store of messages, to tell ranks that a restore is over.
constexpr std::string_view kClosed = "this checkpointer was closed";

Status bad(std::string why) {
  return {Code::invalid_argument, "checkpointer: " + std::move(why)};
}

std::string name_of(const RestoreOptions& options) {
  return options.step ? step_name(*options.step) : options.name;
}

}  // namespace

Checkpointer::Impl::Impl(CheckpointerOptions options)
    : options_(std::move(options)),
      sessions_(options_),
      read_memory_(std::make_shared<DeviceReadMemory>(kReadMemoryBytes)) {}

Checkpointer::Impl::~Impl() {
  if (guard_.is_here()) static_cast<void>(internal::at_border([&] { return close({}); }));
}

Status Checkpointer::Impl::check() const {
  const std::string& directory = options_.directory;
  if (directory.empty()) return bad("no directory given");
  if (options_.keep_last == 0U) return bad("keep_last must be at least 1");
  if (options_.keep_every == 0U) return bad("keep_every must be at least 1");
  if (options_.keep_best && (options_.keep_best->metric.empty() || options_.keep_best->count == 0))
    return bad("keep_best needs a metric, and a count of at least 1");
  if (options_.in_flight == 0) return bad("in_flight must be at least 1");
  if (options_.late == LatePolicy::replace && options_.in_flight < 2)
    return bad("late=replace needs in_flight >= 2, one of them to be replaced");
  if (options_.lock_ttl <= nanoseconds(0))
    return bad("lock_ttl: every other writer would count as dead at once");
  if (options_.deadline < nanoseconds(0)) return bad("deadline: it is negative");
  STOKER_TRY(sessions_.check());
  const PathAt path(directory);
  if (path.last() == kLatestName)
    return bad(directory + ": `latest` is the name of the newest checkpoint in a directory");
  FileOps& ops = posix_file_ops();
  const Result<FileInfo> info = ops.info_of(path);
  if (!info.ok()) return {};
  if (info->kind == FileKind::regular) return bad(directory + " is a file, and not a directory");
  if (is_dataset(ops, path)) return bad(directory + " is a dataset: give another directory");
  if (ops.info_of(path / kManifestName).ok())
    return bad(directory + " is a checkpoint: give the directory above it");
  return {};
}

void Checkpointer::Impl::tell(const std::string& text) const noexcept {
  try {
    if (options_.on_notice) options_.on_notice(text);
  } catch (...) {  // NOLINT(bugprone-empty-catch): documented, it is dropped
  }
}

WaitSink Checkpointer::Impl::wait_sink() const {
  if (!options_.on_notice) return {};
  // By value: a wait of a save that was abandoned may outlive this object.
  return {.tell = [notice = options_.on_notice](const std::string& text) {
    try {
      notice(text);
    } catch (...) {  // NOLINT(bugprone-empty-catch): documented, it is dropped
    }
  }};
}

Result<SaverOptions> Checkpointer::Impl::saver_options(Deadline deadline) {
  SaverOptions made;
  made.copy_threads = std::clamp(std::thread::hardware_concurrency(), 1U, 16U);
  made.copier = make_device_copier({.memory = staging_, .thread_count = made.copy_threads});
  made.staging_arena = staging_->maker();
  made.on_differing = [this](const std::vector<std::string>& names) {
    if (std::exchange(is_differing_told_, true) || names.empty()) return;
    const std::size_t more = names.size() - 1;
    tell("different on the ranks, and stored for each of them: " + names.front() +
         (more > 0 ? " and " + std::to_string(more) + " more" : std::string()) +
         ". Only as many ranks can restore this. If it should not be equal, set is_per_rank");
  };
  made.directory = options_.directory;
  made.has_private_disks = options_.has_private_disks;
  made.late = options_.late;
  made.in_flight = options_.in_flight;
  made.memory_bytes = options_.memory_bytes;
  made.rate_limit_bytes_per_s = options_.rate_limit_bytes_per_s;
  made.deadline = options_.deadline;
  made.dedup = options_.dedup;
  made.parent = parent_;
  made.lock = {.timeout = options_.lock_timeout,
               .ttl = options_.lock_ttl,
               .job = options_.job,
               .on_wait = wait_sink()};
  made.tool = std::string("stoker ") + kVersion;
  made.retention = {.keep_last = options_.keep_last,
                    .keep_every = options_.keep_every,
                    .keep_best = options_.keep_best,
                    .damaged = damaged_,
                    .seen = seen_};
  STOKER_ASSIGN(session_, sessions_.meet("save", deadline, wait_sink()));
  made.coordinator = {session_, session_->coordinator.get()};
  return made;
}

Result<CheckpointSaver*> Checkpointer::Impl::begin(Deadline deadline) {
  {
    const MutexLock lock(mutex_);
    if (saver_ != nullptr) return saver_.get();
  }
  STOKER_ASSIGN(SaverOptions options, saver_options(deadline));
  STOKER_ASSIGN(std::unique_ptr<CheckpointSaver> made, CheckpointSaver::make(std::move(options)));
  const MutexLock lock(mutex_);
  saver_ = std::move(made);
  return saver_.get();
}

/// What cannot be saved is its refusal: with several ranks, all of them must get it.
SaveRequest Checkpointer::Impl::request_of(std::uint64_t step, const Tree& trees,
                                           const SaveOptions& options) const {
  SaveRequest request{.step = step, .reference = options.reference, .devices = options.devices};
  const auto fill = [&]() -> Status {
    if (trees.kind() != Tree::Kind::map)
      return bad("trees are a map, by name: save(step, {{\"model\", model}})");
    if (trees.size() == 0 && !options.cursor && options.loader == nullptr)
      return bad("there is nothing to save");
    internal::TreeTensors tensors;
    std::string text;
    for (const Tree::Field& field : trees.fields()) {
      if (field.name.empty() || field.name.starts_with('!') || !is_utf8(field.name))
        return bad("\"" + field.name + "\": a name is UTF-8, not empty, and begins without '!'");
      STOKER_ASSIGN(const std::string tree, tensors.write(field.value, field.name));
      text.append(text.empty() ? "" : ", ").append(quote_json(field.name) + ": " + tree);
    }
    request.state_json = "{" + text + "}";
    request.tensors = tensors.take();
    STOKER_ASSIGN(request.extra_json, format_tree(options.extra));
    for (const auto& [name, value] : options.reference)
      if (name.empty() || !is_utf8(name))
        return bad("\"" + name + "\": the name of a reference value is UTF-8, and not empty");
    if (options.loader != nullptr && options.cursor)
      return bad("give a loader or a cursor: not both");
    if (options.loader != nullptr) {
      STOKER_ASSIGN(const std::string state, options.loader->state());
      STOKER_ASSIGN(request.cursor_json, internal::write_cursor_tree(state));
    } else if (options.cursor) {
      // What no restore could read is not committed.
      if (const auto read = parse_cursor(format_cursor(*options.cursor)); !read.ok())
        return bad("the cursor: " + std::string(read.status().message()));
      STOKER_ASSIGN(request.cursor_json,
                    internal::write_cursor_tree(format_cursor(*options.cursor)));
    }
    STOKER_TRY(check_state_json(request.state_json, "the state"));
    STOKER_TRY(check_state_json(request.extra_json, "extra"));
    return check_state_json(request.cursor_json, "the loader's state");
  };
  request.refusal = fill();
  if (!request.refusal.ok()) request.tensors.clear();
  return request;
}

Result<PendingSave> Checkpointer::Impl::save(std::uint64_t step, const Tree& trees,
                                             const SaveOptions& options) {
  STOKER_TRY(guard_.check("a checkpointer"));
  if (is_closed_) return Status(Code::invalid_argument, std::string(kClosed));
  STOKER_TRY(std::exchange(unreported_, Status()));
  const Deadline deadline = deadline_after(options_.deadline);
  SaveRequest request = request_of(step, trees, options);
  if (!request.refusal.ok() && options_.ranks.world_size == 1) return request.refusal;
  STOKER_ASSIGN(CheckpointSaver* const saver, begin(deadline));
  request.deadline = time_left(deadline);
  Result<PendingSave> pending = saver->save(std::move(request));
  STOKER_TRY(pending.status());
  {
    const MutexLock lock(mutex_);
    pending_.push_back(*pending);
    last_step_ = step;
    last_time_ = Clock::now();
  }
  learn_ended();
  if (options_.ranks.rank == 0) tell_others(*pending);
  return pending;
}

void Checkpointer::Impl::learn_ended() {
  const MutexLock lock(mutex_);
  while (!pending_.empty() && pending_.front().is_done()) {
    const PendingSave& ended = pending_.front();
    if (ended.is_durable())
      parent_ = CheckpointParent{
          .step = ended.step(), .generation = ended.generation(), .line = ended.line()};
    pending_.pop_front();
  }
}

/// Tells once of checkpoints that this run does not continue: retention leaves them alone.
void Checkpointer::Impl::tell_others(const PendingSave& own) {
  if (std::exchange(is_others_told_, true) || !options_.on_notice || parent_) return;
  const Result<std::vector<CatalogStep>> steps = list();
  if (!steps.ok()) return;
  std::size_t count = 0;
  std::string newest;
  for (const CatalogStep& step : *steps) {
    if (step.generation == own.generation() && step.is_valid() && step.summary->line == own.line())
      continue;
    if (count++ == 0) newest = step.name;
  }
  if (count == 0) return;
  tell(options_.directory + ": an earlier run has saved " + std::to_string(count) +
       (count > 1 ? " checkpoints" : " checkpoint") + " here, the newest " + newest +
       ", and this run has not restored it: it starts over. They are kept regardless of the rules; "
       "`stoker checkpoint prune` removes them. To continue, call restore() first");
}

bool Checkpointer::Impl::await_all(Deadline deadline) const {
  std::deque<PendingSave> pending;
  {
    const MutexLock lock(mutex_);
    pending = pending_;
  }
  return std::ranges::all_of(pending, [&](const PendingSave& one) {
    static_cast<void>(one.wait(time_left(deadline)));  // the saver returns its error
    return one.is_done();
  });
}

Checkpointer::Impl::Seen Checkpointer::Impl::what_is_there() const {
  Seen seen;
  const Result<std::vector<CatalogStep>> steps = list();
  if (!steps.ok()) return seen;  // nothing that is not known to be there is removed
  for (const CatalogStep& step : *steps) {
    std::uint64_t& greatest = seen[step.is_valid() ? step.summary->line : ""];
    greatest = std::max(greatest, step.generation);
  }
  return seen;
}

Result<RestoreAgreement::Outcome> Checkpointer::Impl::agree(const RestoreOptions& options,
                                                            const RestoreTrial& trial) {
  const Deadline deadline = deadline_after(options_.deadline);
  const RankRequest request{.path = options_.directory,
                            .open = [this]() -> Result<StoreHandle> {
                              STOKER_ASSIGN(
                                  const CheckpointDirectory opened,
                                  CheckpointDirectory::open(posix_file_ops(), options_.directory));
                              return StoreHandle(opened);
                            },
                            .name = name_of(options),
                            .finite = options.finite,
                            .has_private_disks = options_.has_private_disks};
  STOKER_ASSIGN(std::shared_ptr<internal::RankSession> session,
                sessions_.meet("restore", deadline, wait_sink()));
  RestoreAgreement agreement(*session->coordinator, deadline);
  Result<RestoreAgreement::Outcome> outcome = agreement.restore(request, trial);
  if (!agreement.take_leave()) sessions_.keep(std::move(session));
  return outcome;
}

Status Checkpointer::Impl::failure_of(const RestoreFailure& failure,
                                      const std::string& name) const {
  const Status& status = failure.report.status;
  if (failure.is_of_trial && failure.rank != options_.ranks.rank)
    return status.with_context("rank " + std::to_string(failure.rank));
  if (name.empty() || status.code() != Code::not_found) return status;
  const Result<std::vector<CatalogStep>> steps = list();
  std::string there;
  std::size_t count = 0;
  if (steps.ok())
    for (const CatalogStep& step : *steps)
      if (step.is_valid() && !step.is_superseded() && count++ < kStepsTold)
        there.append(there.empty() ? "" : ", ").append(std::to_string(step.parsed.step));
  if (there.empty()) return status;
  return {status.code(), std::string(status.message()) + "; existing steps: " + there,
          status.os_error()};
}

Result<std::optional<Restored>> Checkpointer::Impl::restore(Tree& trees,
                                                            const RestoreOptions& options) {
  STOKER_TRY(guard_.check("a checkpointer"));
  if (is_closed_) return Status(Code::invalid_argument, std::string(kClosed));
  if (options.step && !options.name.empty())
    return bad("restore by step or by name, not by both: step " + std::to_string(*options.step) +
               " and " + options.name + " were given");
  await_all(Deadline::max());
  internal::RestoreAttempt attempt(trees, options, options_, read_memory_);
  RestoreTrial trial = attempt.trial();
  if (trees.kind() != Tree::Kind::map && !trees.is_null())
    trial.check = [](const CheckpointReader&) -> RestoreReport {
      return {.status = bad("trees are a map, by name"), .is_callers = true};
    };
  Seen seen = what_is_there();
  const std::string name = name_of(options);
  const Result<RestoreAgreement::Outcome> outcome = agree(options, trial);
  const auto told = [&](const Status& status) {
    return Status(status.code(), std::string(status.message()) + attempt.tell_partly_read(),
                  status.os_error());
  };
  if (!outcome.ok()) return told(outcome.status());
  if (outcome->failure) return told(failure_of(*outcome->failure, name));
  for (const PassedOver& passed : outcome->choice.passed_over)
    tell("passed over " + passed.name + ": " + std::string(passed.reason.message()));
  if (outcome->choice.name.empty()) return std::optional<Restored>();
  STOKER_ASSIGN(Restored restored, attempt.finish(trees));
  for (const PassedOver& passed : outcome->choice.passed_over)
    restored.skipped.push_back({.name = passed.name, .reason = passed.reason});
  release({.step = restored.step, .generation = restored.generation, .line = restored.line},
          outcome->choice.passed_over, std::move(seen));
  const MutexLock lock(mutex_);
  last_step_ = restored.step;
  last_time_ = Clock::now();
  return std::optional(std::move(restored));
}

/// Closes the saver, which releases the lock; the next save makes another, which continues
/// `parent`. `seen`: what existed before the restore began.
void Checkpointer::Impl::release(const CheckpointParent& parent,
                                 const std::vector<PassedOver>& passed_over, Seen seen) {
  learn_ended();
  bool is_known = true;
  for (const PassedOver& passed : passed_over)
    if (passed.generation != 0) is_known = !damaged_.insert(passed.generation).second && is_known;
  // Several ranks must all close or none, and what they know of the last save may differ.
  if (options_.ranks.world_size == 1 && parent_ == parent && is_known) return;
  std::shared_ptr<CheckpointSaver> saver;
  {
    const MutexLock lock(mutex_);
    saver = std::exchange(saver_, nullptr);
  }
  if (saver != nullptr) unreported_ = saver->close();
  session_.reset();
  parent_ = parent;
  std::uint64_t& greatest = seen[parent.line];
  greatest = std::max(greatest, parent.generation);
  seen_ = std::move(seen);
}

bool Checkpointer::Impl::due(std::uint64_t step, const Due& due) const {
  const MutexLock lock(mutex_);
  if (last_step_ == step) return false;
  const bool is_time = options_.ranks.world_size == 1 && due.every != nanoseconds::max() &&
                       Clock::now() - last_time_ >= due.every;
  return is_time || (due.every_steps > 0 && step > 0 && step % due.every_steps == 0);
}

Result<std::vector<CatalogStep>> Checkpointer::Impl::list() const {
  const auto directory = CheckpointDirectory::open(posix_file_ops(), options_.directory);
  if (is_gone(directory.status())) return std::vector<CatalogStep>();
  STOKER_TRY(directory.status());
  STOKER_ASSIGN(Catalog catalog, list_checkpoints(*directory));
  return std::move(catalog.steps);
}

Result<std::pair<std::uint64_t, std::string>> Checkpointer::Impl::find(std::uint64_t step) const {
  std::optional<PendingSave> pending;
  if (guard_.is_here()) {
    const MutexLock lock(mutex_);
    for (const PendingSave& one : pending_)
      if (one.step() == step) pending = one;
  }
  if (pending) static_cast<void>(pending->wait());
  STOKER_ASSIGN(const std::vector<CatalogStep> steps, list());
  for (const CatalogStep& found : steps) {
    if (found.parsed.step != step || found.is_superseded()) continue;
    STOKER_TRY(found.problem);
    return std::pair(found.generation, found.summary->line);
  }
  return Status(Code::not_found, options_.directory + " has no step " + std::to_string(step));
}

SaveProgress Checkpointer::Impl::progress() const {
  if (!guard_.is_here()) return {};
  std::shared_ptr<CheckpointSaver> saver;
  {
    const MutexLock lock(mutex_);
    saver = saver_;
  }
  return saver == nullptr ? SaveProgress() : saver->progress();
}

Status Checkpointer::Impl::wait(nanoseconds timeout) {
  STOKER_TRY(guard_.check("a checkpointer"));
  std::shared_ptr<CheckpointSaver> saver;
  {
    const MutexLock lock(mutex_);
    saver = saver_;
  }
  return saver == nullptr ? Status() : saver->wait(timeout);
}

Status Checkpointer::Impl::close(std::optional<nanoseconds> timeout) {
  STOKER_TRY(guard_.check("a checkpointer"));
  if (std::exchange(is_closed_, true)) return {};
  std::shared_ptr<CheckpointSaver> saver;
  {
    const MutexLock lock(mutex_);
    saver = std::exchange(saver_, nullptr);
  }
  Status status =
      saver == nullptr ? Status() : saver->close(timeout.value_or(options_.close_timeout));
  session_.reset();
  return status.ok() ? std::exchange(unreported_, Status()) : status;
}

}  // namespace stoker
