#include "checkpoint/save/saver_core.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "checkpoint/manifest/names.h"
#include "checkpoint/save/save_places.h"

namespace stoker {
namespace {

constexpr std::uint64_t kBurstBytes = 2 * kCheckpointChunkBytes;
/// How long rank 0 waits for the other ranks when it closes, and they for rank 0.
constexpr nanoseconds kFarewell = std::chrono::seconds(10);
constexpr std::size_t kFailuresKept = 16;
constexpr int kLockRoundsMax = 3;  // in one save; one is needed

/// A copy that returns an error or throws fails the save: its chunks are never complete.
template <typename Copy>
void copy_or_fail(SaveJob& job, const Copy& copy) {
  Status copied;
  try {
    copied = copy();
  } catch (const std::bad_alloc&) {
    copied = job.no_memory;
  } catch (const std::exception& error) {
    copied = Status(Code::unavailable, std::string("copy a checkpoint: ") + error.what());
  }
  if (!copied.ok()) job.staging->fail(std::move(copied));
}

}  // namespace

CheckpointSaver::Core::Core(SaverOptions options)
    : options_(std::move(options)),
      caller_ops_(*options_.ops),
      writer_ops_(*options_.ops),
      coordinator_(*options_.coordinator),
      limiter_(options_.rate_limit_bytes_per_s, kBurstBytes),
      memory_(options_.memory_bytes, options_.staging_arena),
      learned_(options_.group_limits),
      rounds_(coordinator_),
      sharing_(coordinator_.rank(), coordinator_.world_size()) {
  if (coordinator_.rank() == 0 || options_.has_private_disks)
    leader_ = std::make_unique<SaveLeader>(options_, coordinator_, caller_ops_, writer_ops_);
}

CheckpointSaver::Core::~Core() {
  close();
}

void CheckpointSaver::Core::close() {
  if (std::exchange(is_closed_, true)) return;
  static_cast<void>(await_idle(Deadline::max()));
  writer_.request_stop();
  if (writer_.joinable()) writer_.join();
  // A failure cannot be reported; the next writer then sweeps what is left.
  const Deadline deadline = deadline_after(std::min<nanoseconds>(options_.deadline, kFarewell));
  // Rank 0 waits for the other ranks, which still read its last message.
  if (rounds_.has_begun()) static_cast<void>(coordinator_.gather("close", "", deadline));
  if (leader_ != nullptr) leader_->release();
}

Status CheckpointSaver::Core::start() {
  try {
    writer_ = std::jthread([this](std::stop_token stop) { run(stop); });
  } catch (const std::system_error& error) {
    return Status(Code::unavailable,
                  std::string("cannot start the writer thread: ") + error.what());
  }
  return {};
}

// The caller's side ------------------------------------------------------------------------------

/// Divides the tensors among those that this rank stores and those that others store.
Status CheckpointSaver::Core::divide(SaveJob& job) const {
  MutexLock lock(mutex_);
  STOKER_ASSIGN(SplitTensors split, sharing_.split(job.request.tensors, job.keys));
  job.stored = std::move(split.stored);
  job.held = std::move(split.copies);
  return {};
}

Status CheckpointSaver::Core::plan(SaveJob& job) {
  STOKER_TRY(job.request.refusal);
  STOKER_TRY(options_.copier->check(job.request.tensors));
  STOKER_TRY(divide(job));
  const std::span<const SaveTensor> tensors = job.stored;
  STOKER_ASSIGN(job.layout, plain_layouts_.plan(coordinator_.rank(), tensors));
  // A group is linked only after all of it was scanned. If the save passes through in chunks, most
  // of it would be overwritten by then.
  const std::uint64_t whole = staging_bytes(job.layout);
  if (!options_.dedup || memory_.grant_bytes(whole) < whole) return {};
  const std::vector<std::uint32_t> groups =
      learned_.plan(tensors, job.layout, options_.copier->is_of_host_memory());
  if (std::ranges::all_of(groups, [](std::uint32_t group) { return group == kNoGroup; })) return {};
  STOKER_ASSIGN(job.layout, grouped_layouts_.plan(coordinator_.rank(), tensors, groups));
  return {};
}

std::uint64_t CheckpointSaver::Core::new_bytes(const CheckpointLayout& layout) const {
  const std::shared_ptr<const LinkParent> parent = learned_.parent();
  std::uint64_t total = 0;
  for (const LayoutFile& file : layout.files) {
    const bool is_link =
        file.group && parent != nullptr && parent->find(file.name, file.size_bytes) != nullptr;
    if (!is_link) total += file.size_bytes;
  }
  return total;
}

BeginMessage CheckpointSaver::Core::begin(const SaveJob& job, const Status& planned) {
  BeginMessage message{
      .step = job.request.step, .size_bytes = new_bytes(job.layout), .failure = planned};
  const std::size_t needed = memory_.grant_bytes(staging_bytes(job.layout));
  const bool is_short = memory_.is_short_of(needed);
  MutexLock lock(mutex_);
  message.is_late = in_flight_.size() >= options_.in_flight || is_short;
  if (!queue_.empty() && options_.late == LatePolicy::replace) {
    message.waiting_number = queue_.back()->number;
    is_held_ = true;  // until the verdict: the save offered for replacement must not begin
  }
  // An error after a commit does not fail the next save: wait() and close() return it.
  forget_reported();
  for (const Failure& failure : failures_) {
    if (failure.is_behind_commit) continue;
    message.failed_number = failure.number;
    message.failure = failure.error;
  }
  return message;
}

void CheckpointSaver::Core::note(Failure failure) {
  forget_reported();
  failures_.push_back(std::move(failure));
  // Errors after a commit stay until wait() or close(), so the number must be limited.
  if (failures_.size() > kFailuresKept) failures_.pop_front();
}

void CheckpointSaver::Core::forget_reported() {
  std::erase_if(failures_, [](const Failure& failure) {
    return failure.pending != nullptr && failure.pending->is_reported();
  });
}

SavesInFlight CheckpointSaver::Core::saves_in_flight(const BeginMessage& message) const {
  SavesInFlight saves;
  MutexLock lock(mutex_);
  for (const Job& other : in_flight_) saves.steps.push_back(other->request.step);
  saves.unreserved_bytes = unreserved_bytes(message);
  return saves;
}

// The save offered for replacement is not counted. If the ranks do not agree on it, and it stays,
// a write may fail for lack of space.
std::uint64_t CheckpointSaver::Core::unreserved_bytes(const BeginMessage& message) const {
  std::uint64_t total = 0;
  for (const Job& other : in_flight_) {
    const bool is_offered = message.is_late && other->number == message.waiting_number;
    const bool is_reserved =
        other->reservation.load(std::memory_order_relaxed) == Reservation::done;
    if (!is_offered && other->failure.ok() && !is_reserved) total += other->new_bytes;
  }
  return total;
}

/// While an earlier save reserves its blocks, they are counted twice: as used and as still needed.
/// Waits, under every policy, until it has reserved all or has ended. Returns true if less is
/// needed than `seen`.
bool CheckpointSaver::Core::await_reservation(const BeginMessage& message,
                                              const SavesInFlight& seen, Deadline deadline) {
  const auto is_reserving = [](const Job& other) {
    return other->reservation.load(std::memory_order_relaxed) == Reservation::under_way;
  };
  MutexLock lock(mutex_);
  while (std::ranges::any_of(in_flight_, is_reserving) && changed_.wait_until(mutex_, deadline)) {
  }
  return unreserved_bytes(message) < seen.unreserved_bytes;
}

/// Whether waiting may free space: condemned checkpoints are being removed, or the policy is to
/// wait for earlier saves, which may remove some.
bool CheckpointSaver::Core::is_room_coming() const {
  return is_removing_ || (options_.late == LatePolicy::block && !in_flight_.empty());
}

void CheckpointSaver::Core::await_room(Deadline deadline) {
  MutexLock lock(mutex_);
  while (is_room_coming() && changed_.wait_until(mutex_, deadline)) {
  }
}

/// On rank 0. `messages` are of all ranks, its own first.
Verdict CheckpointSaver::Core::decide(SaveJob& job, std::uint64_t number,
                                      std::span<const BeginMessage> messages) {
  const BeginMessage& own = messages.front();
  const PlaceTable table = group_places(messages, leader_->token());
  const bool is_sound =
      std::ranges::all_of(messages, [](const BeginMessage& one) { return one.failure.ok(); });
  if (const Status mixed = check_same_disks(messages); is_sound && !mixed.ok())
    return {.action = SaveAction::fail, .failure = mixed};
  if (is_sound && !table.is_locked())
    return {.action = SaveAction::lock_places, .places = table.places, .tokens = table.tokens};
  job.hosts = table.hosts;
  const SharingVerdict sharing = decide_sharing(messages, table.places);
  if (sharing.must_count) return {.action = SaveAction::count};
  job.new_bytes = 0;
  for (const BeginMessage& heard : messages) job.new_bytes += heard.size_bytes;
  const std::uint64_t spared_bytes = sharing.owners ? sharing.owners->spared_bytes : 0;
  job.new_bytes -= std::min(job.new_bytes, spared_bytes);
  // The loop ends: earlier saves need less space each time, and await_room() is called once.
  for (bool has_waited = false;;) {
    bool is_more_coming = false;
    {
      MutexLock lock(mutex_);
      is_more_coming = is_room_coming();
    }
    SavesInFlight saves = saves_in_flight(own);
    saves.spared_bytes = spared_bytes;
    Verdict verdict = leader_->decide(number, messages, saves);
    if (sharing.owners && verdict.action == SaveAction::go) verdict.owners = sharing.owners->owners;
    verdict.places = table.places;
    verdict.tokens = table.tokens;
    if (verdict.raised_number != 0 || verdict.failure.code() != Code::no_space) return verdict;
    if (await_reservation(own, saves, job.deadline)) continue;
    if (!is_more_coming || std::exchange(has_waited, true)) return verdict;
    await_room(job.deadline);
  }
}

// Every rank acts on the same verdict.
Result<Verdict> CheckpointSaver::Core::agree(SaveJob& job, const BeginMessage& message) {
  const auto agreed = [&]() -> Result<SaveRounds::Agreed> {
    if (coordinator_.rank() != 0) return rounds_.follow(message, job.deadline);
    // Without the lock rank 0 does not listen, but it must still answer the other ranks.
    bool is_idle = false;
    {
      MutexLock lock(mutex_);
      is_idle = in_flight_.empty();
    }
    if (const Status ready = leader_->ready(is_idle, job.deadline); !ready.ok())
      return rounds_.refuse(message, ready, job.deadline);
    return rounds_.lead(
        message,
        [&](std::uint64_t number, std::span<const BeginMessage> messages) {
          return decide(job, number, messages);
        },
        job.deadline);
  }();
  if (!agreed.ok()) return agreed.status();
  job.number = agreed->number;
  return agreed->verdict;
}

void CheckpointSaver::Core::settle(const Verdict& verdict, Deadline deadline) {
  Job replaced;
  {
    MutexLock lock(mutex_);
    is_held_ = false;
    if (verdict.raised_number != 0) {
      const std::uint64_t raised = std::max(raised_number_, verdict.raised_number);
      raised_number_ = raised;
      std::erase_if(failures_, [&](const Failure& failure) { return failure.number <= raised; });
    }
    if (verdict.replaced_number != 0 && !queue_.empty() &&
        queue_.back()->number == verdict.replaced_number) {
      replaced = queue_.back();
      queue_.pop_back();
      std::erase(in_flight_, replaced);
    }
  }
  changed_.notify_all();
  if (replaced == nullptr) return;
  if (replaced->staging != nullptr)  // the rest of its copy ends early
    replaced->staging->fail(Status(Code::cancelled, "a later save replaces it"));
  if (fills_->await(replaced->number, deadline)) {
    memory_.give_back(std::move(replaced->arena));
  } else {
    auto stuck = std::make_unique<StuckWrite>();
    stuck->arena = std::move(replaced->arena);
    fills_->keep(replaced->number, replaced, *stuck);
    replaced_.keep(std::move(stuck));
  }
  replaced->pending->finish(SaveOutcome::replaced, Status());
}

/// Tells where this rank saves, if nodes have private disks. The first rank of a place takes its
/// lock.
Status CheckpointSaver::Core::introduce_place(SaveJob& job, BeginMessage& message) {
  if (!options_.has_private_disks) return {};
  STOKER_TRY(introduce(options_, caller_ops_, message));
  if (!leads_place_ || !message.failure.ok()) return {};  // the save fails without a lock as well
  bool is_idle = false;
  {
    MutexLock lock(mutex_);
    is_idle = in_flight_.empty();
  }
  STOKER_TRY(leader_->ready(is_idle, job.deadline).with_context("the disk of this node"));
  message.token = leader_->token();
  return {};
}

/// Leaves it to a thread to wait for devices that have not answered in time; waits if there is
/// none.
void CheckpointSaver::Core::await_late(const CopyRest& late) {
  struct Waiter {
    std::atomic<bool> is_over = false;
    std::jthread thread;
  };
  try {
    const auto waiter = std::make_shared<Waiter>();
    auto stuck = std::make_unique<StuckWrite>();
    stuck->filling = waiter;
    stuck->is_filled = [one = waiter.get()] { return one->is_over.load(); };
    waiter->thread = std::jthread(
        [rest = CopyRest(late), copier = options_.copier, one = waiter.get()]() mutable {
          static_cast<void>(rest());
          rest = {};
          one->is_over.store(true);
        });
    replaced_.keep(std::move(stuck));
    return;
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread can be started
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch): the same
  }
  static_cast<void>(late());
}

Status CheckpointSaver::Core::count(SaveJob& job) {
  CopyRest late;
  const Status counted = count_pieces(job, *options_.copier, late);
  if (late) await_late(late);
  return counted;
}

Status CheckpointSaver::Core::hash_held(SaveJob& job) {
  CopyRest late;
  const Status hashed = hash_copies(job, *options_.copier, late);
  if (late) await_late(late);
  return hashed;
}

/// Gives up the lock of this place, after a save for which not all places could be locked: another
/// job may hold one, and wait for this one.
void CheckpointSaver::Core::yield_place() {
  {
    MutexLock lock(mutex_);
    if (!in_flight_.empty()) return;
  }
  if (leader_ != nullptr) leader_->let_go();
}

/// Agrees with the other ranks on the save, and if needed on who stores what.
Result<Verdict> CheckpointSaver::Core::agree_and_plan(SaveJob& job) {
  Status planned = plan(job);
  if (coordinator_.world_size() == 1) return agree(job, begin(job, planned));
  int lock_count = 0;
  for (bool must_count = false;; must_count = true) {
    std::uint64_t shared_number = 0;
    {
      MutexLock lock(mutex_);
      shared_number = must_count ? 0 : sharing_.number_for(job.keys);
    }
    if (planned.ok() && shared_number == 0) planned = count(job);
    BeginMessage message = begin(job, planned);
    message.shared_number = shared_number;
    const Status placed = introduce_place(job, message);
    if (message.failure.ok()) message.failure = placed;
    if (message.failure.ok() && shared_number == 0) message.pieces = pieces_of(job);
    STOKER_ASSIGN(Verdict verdict, agree(job, message));
    if (verdict.action == SaveAction::count) continue;
    const std::uint32_t rank = coordinator_.rank();
    if (verdict.action == SaveAction::lock_places) {
      // All ranks count the same verdicts.
      if (++lock_count > kLockRoundsMax)
        return Status(Code::unavailable, "the directories of the ranks keep changing");
      if (planned.ok()) planned = check_not_shared(options_, caller_ops_, verdict, rank);
      leads_place_ = planned.ok() && rank > 0 && leads_place(verdict.places, rank);
      continue;
    }
    if (verdict.action == SaveAction::fail && lock_count > 0) yield_place();
    job.places = verdict.places;
    if (verdict.owners) {
      {
        MutexLock lock(mutex_);
        sharing_.learn(job.number, job.keys, *verdict.owners, verdict.places);
      }
      job.failure = plan(job);  // the other ranks get it with this rank's part
      const std::vector<std::string> differing =
          find_differing(job.request.tensors, job.keys, *verdict.owners, rank);
      if (!differing.empty() && options_.on_differing) options_.on_differing(differing);
    }
    return verdict;
  }
}

/// agree_and_plan(), with a deadline for the calls to the filesystem: a second later than the
/// others, so that a save that has waited for the lock can tell who holds it.
Result<Verdict> CheckpointSaver::Core::agree_in_time(SaveJob& job) {
  constexpr nanoseconds kLastCalls = std::chrono::seconds(1);
  if (leader_ == nullptr) return agree_and_plan(job);
  const Status begun = caller_ops_.begin(deadline_after(kLastCalls, job.device_deadline));
  if (job.request.refusal.ok()) job.request.refusal = begun;
  const struct End {
    TimedFileOps& ops;
    ~End() { ops.end(); }
  } end{caller_ops_};
  return agree_and_plan(job);
}

Result<PendingSave> CheckpointSaver::Core::save(SaveRequest request) {
  auto job = std::make_shared<SaveJob>();
  job->deadline = deadline_after(request.deadline.value_or(options_.deadline));
  job->request = std::move(request);
  job->pending = std::make_shared<PendingState>(job->request.step);
  job->device_deadline = answer_deadline(job->deadline, coordinator_.world_size());
  // The other ranks get a refusal in agree_and_plan().
  if (job->request.refusal.ok()) job->request.refusal = replaced_.check();
  if (job->request.refusal.ok())
    job->request.refusal =
        options_.copier->begin(job->request.tensors, job->request.devices, job->device_deadline);
  const std::string context = "save step " + std::to_string(job->request.step);
  if (coordinator_.world_size() > 1) job->keys = piece_keys(job->request.tensors);
  const Result<Verdict> verdict = agree_in_time(*job);
  settle(verdict.ok() ? *verdict : Verdict(), job->deadline);
  if (!verdict.ok()) return verdict.status().with_context(context);
  switch (verdict->action) {
    case SaveAction::skip:
      job->pending->set_released();
      job->pending->finish(SaveOutcome::skipped, Status());
      return PendingSave(job->pending);
    case SaveAction::fail:
    case SaveAction::fail_behind:
      // The error of an earlier save names its own step.
      return verdict->raised_number != 0 ? verdict->failure
                                         : verdict->failure.with_context(context);
    case SaveAction::go:
    case SaveAction::count:
    case SaveAction::lock_places: break;
  }
  job->staging_name = verdict->staging;
  if (!job->places.empty())
    job->staging_name = owner_name(verdict->tokens.at(job->places.at(coordinator_.rank()))) +
                        job->staging_name.substr(job->staging_name.find('/'));
  return enter(job);
}

Status CheckpointSaver::Core::stage(const Job& job) {
  STOKER_TRY(job->failure);
  {
    MutexLock lock(mutex_);
    while (in_flight_.size() >= options_.in_flight) {
      if (!changed_.wait_until(mutex_, job->deadline))
        return Status(Code::unavailable, "earlier saves did not end before its deadline");
    }
  }
  const std::uint64_t whole = staging_bytes(job->layout);
  STOKER_ASSIGN(job->arena, memory_.take(memory_.grant_bytes(whole), job->deadline));
  STOKER_TRY(hash_held(*job));
  job->staging = std::make_unique<Staging>(job->layout, job->arena->bytes());
  return {};
}

Result<PendingSave> CheckpointSaver::Core::enter(const Job& job) {
  job->failure = stage(job);
  if (job->failure.ok())
    fills_->begin(job->number);
  else
    job->pending->set_released();
  {
    MutexLock lock(mutex_);
    queue_.push_back(job);
    in_flight_.push_back(job);
    // Returned right here; the other ranks get it from rank 0.
    if (!job->failure.ok()) raised_number_ = std::max(raised_number_, job->number);
  }
  changed_.notify_all();
  if (!job->failure.ok())
    return job->failure.with_context("save step " + std::to_string(job->request.step));
  fill(*job);
  job->pending->set_staged();
  return PendingSave(job->pending);
}

/// Copies the tensors. If the writer fails meanwhile the copy ends early, and the PendingSave has
/// the error. What need not be done before save() returns is left to a thread, or done here if
/// there is none.
void CheckpointSaver::Core::fill(SaveJob& job) {
  CopyRest rest;
  copy_or_fail(job, [&]() -> Status {
    STOKER_ASSIGN(rest, options_.copier->begin_copy(job.layout, job.stored, *job.staging));
    return {};
  });
  try {
    if (rest) {
      // What it uses may have to outlive this object: the save, if StuckWrites keeps it, does.
      job.drain = std::jthread([fills = fills_, copier = options_.copier, &job, rest]() mutable {
        drain(*fills, job, std::move(rest));
      });
      return;
    }
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread can be started
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch): the same
  }
  drain(*fills_, job, std::move(rest));
}

/// After this the writer may free the job, which joins the thread that runs it.
void CheckpointSaver::Core::drain(Fills& fills, SaveJob& job, CopyRest rest) {
  if (rest) copy_or_fail(job, rest);
  rest = {};  // with the memory of the snapshot
  job.pending->set_released();
  fills.end(job.number);
}

bool CheckpointSaver::Core::await_idle(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!in_flight_.empty() || is_removing_) {
    if (!changed_.wait_until(mutex_, deadline)) return in_flight_.empty() && !is_removing_;
  }
  return true;
}

Status CheckpointSaver::Core::take_error() {
  MutexLock lock(mutex_);
  forget_reported();
  Status error = failures_.empty() ? Status() : std::move(failures_.back().error);
  failures_.clear();
  return error;
}

Status CheckpointSaver::Core::wait(Deadline deadline) {
  const bool is_idle = await_idle(deadline);
  Status error = take_error();
  if (error.ok() && !is_idle) error = Status(Code::unavailable, "wait: a save is still in flight");
  return error;
}

SaveProgress CheckpointSaver::Core::progress() const {
  Job job;
  SaveProgress progress;
  {
    MutexLock lock(mutex_);
    progress.in_flight = static_cast<std::uint32_t>(in_flight_.size());
    if (!in_flight_.empty()) job = in_flight_.front();
  }
  if (job == nullptr) return progress;
  progress.stage = job->stage.load(std::memory_order_relaxed);
  progress.step = job->request.step;
  progress.size_bytes = job->layout.size_bytes();
  progress.staged_bytes = job->staging == nullptr ? 0 : job->staging->filled_bytes();
  progress.written_bytes = job->written_bytes.load(std::memory_order_relaxed);
  return progress;
}

// The writer's side ------------------------------------------------------------------------------

void CheckpointSaver::Core::run(std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    {
      MutexLock lock(mutex_);
    }
    changed_.notify_all();
  });
  SaveWorker worker({.options = options_,
                     .ops = writer_ops_,
                     .coordinator = coordinator_,
                     .leader = leader_.get(),
                     .memory = memory_,
                     .learned = learned_,
                     .limiter = options_.rate_limit_bytes_per_s > 0 ? &limiter_ : nullptr,
                     .reservation_changed = [this] {
                       {
                         MutexLock lock(mutex_);
                       }
                       changed_.notify_all();
                     }});
  while (const Job job = next_job(stop)) {
    const EndMessage end = work(worker, job);
    finish(job, end);
    if (end.outcome == SaveOutcome::committed) writer_ops_.reached("checkpoint.acknowledged");
    remove_condemned(*job);
  }
}

/// Turns std::bad_alloc into a failed save where the worker itself does not.
EndMessage CheckpointSaver::Core::work(SaveWorker& worker, const Job& job) {
  try {
    return worker.run(job, *fills_);
  } catch (const std::bad_alloc&) {
    return {.outcome = SaveOutcome::unknown, .failure = Status::from_errno(ENOMEM, "save", "")};
  }
}

CheckpointSaver::Core::Job CheckpointSaver::Core::next_job(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while ((queue_.empty() || is_held_) && !stop.stop_requested()) changed_.wait(mutex_);
  if (stop.stop_requested()) return nullptr;
  Job job = queue_.front();
  queue_.pop_front();
  return job;
}

void CheckpointSaver::Core::finish(const Job& job, const EndMessage& end) {
  const Status error = end.failure.with_context("save step " + std::to_string(job->request.step));
  {
    MutexLock lock(mutex_);
    std::erase(in_flight_, job);
    if (end.outcome != SaveOutcome::committed) sharing_.forget();
    if (!error.ok() && job->number > raised_number_)
      note({.number = job->number,
            .error = error,
            .is_behind_commit = end.outcome == SaveOutcome::committed,
            .pending = job->pending});
    // Under the lock: a thread that sees no save in flight finds every PendingSave done, and vice
    // versa.
    job->pending->finish(end.outcome, error, end.generation, end.line);
    is_removing_ = leader_ != nullptr && leader_->has_condemned();
  }
  changed_.notify_all();
}

void CheckpointSaver::Core::remove_condemned(const SaveJob& job) {
  if (leader_ == nullptr || !leader_->has_condemned()) return;
  Status error;
  try {
    error =
        leader_->remove_condemned().with_context("save step " + std::to_string(job.request.step));
  } catch (const std::bad_alloc&) {
    error = Status::from_errno(ENOMEM, "remove checkpoints", "");
  }
  {
    MutexLock lock(mutex_);
    is_removing_ = false;
    if (!error.ok())
      note({.number = job.number, .error = error, .is_behind_commit = true, .pending = nullptr});
  }
  changed_.notify_all();
}

}  // namespace stoker
