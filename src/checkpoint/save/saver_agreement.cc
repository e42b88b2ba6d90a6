// How the ranks agree on a save before the copy: its plan, and their verdict.
#include <algorithm>
#include <numeric>
#include <utility>

#include "checkpoint/save/saver_core.h"

namespace stoker {
namespace {

constexpr int kLockRoundsMax = 3;  // in one save; one is needed
constexpr int kRoomRoundsMax = 3;  // blocks that are reserved just then are counted twice

}  // namespace

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

/// On rank 0: a place has no room. Its ranks look again, once what they are about to free is free.
Verdict CheckpointSaver::Core::refuse_room(SaveJob& job, const PlaceTable& table, Status full) {
  const bool is_last = ++job.room_rounds > kRoomRoundsMax;
  return {.action = is_last ? SaveAction::fail : SaveAction::make_room,
          .failure = is_last ? std::move(full) : Status(),
          .places = table.places,
          .tokens = table.tokens};
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
  std::vector<std::uint64_t> new_bytes;  // of each rank
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    const std::uint64_t size_bytes = messages[rank].size_bytes;
    const std::uint64_t spared = sharing.owners ? sharing.owners->spared_bytes[rank] : 0;
    new_bytes.push_back(size_bytes - std::min(size_bytes, spared));
  }
  job.new_bytes = std::reduce(new_bytes.begin(), new_bytes.end());
  // The loop ends: earlier saves need less space each time, and await_room() is called once.
  for (bool has_waited = false;;) {
    bool is_more_coming = false;
    {
      MutexLock lock(mutex_);
      is_more_coming = is_room_coming();
    }
    const SavesInFlight saves = saves_in_flight(own);
    Verdict verdict = leader_->decide(number, messages, saves, job.new_bytes);
    if (verdict.action == SaveAction::go)
      if (Status full = check_room(options_.directory, messages, table, new_bytes); !full.ok())
        return refuse_room(job, table, std::move(full));
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
  {
    MutexLock lock(mutex_);  // before the free space is looked at: blocks may be reserved meanwhile
    message.unreserved_bytes = unreserved_bytes(message, &SaveJob::own_bytes);
  }
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
  Status planned = job.unless_no_memory([&] { return plan(job); });
  if (coordinator_.world_size() == 1) return agree(job, begin(job, planned));
  int lock_count = 0;
  for (bool must_count = false;; must_count = true) {
    std::uint64_t shared_number = 0;
    {
      MutexLock lock(mutex_);
      shared_number = must_count ? 0 : sharing_.number_for(job.keys);
    }
    if (planned.ok() && shared_number == 0)
      planned = job.unless_no_memory([&] { return count(job); });
    BeginMessage message = begin(job, planned);
    message.shared_number = shared_number;
    const Status placed = introduce_place(job, message);
    if (message.failure.ok()) message.failure = placed;
    if (message.failure.ok() && shared_number == 0) message.pieces = pieces_of(job);
    STOKER_ASSIGN(Verdict verdict, agree(job, message));
    if (verdict.action == SaveAction::count) continue;
    if (verdict.action == SaveAction::make_room) {
      await_own_room(answer_deadline(job.deadline, coordinator_.world_size()));
      continue;
    }
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
      // The other ranks get it with this rank's part.
      job.failure = job.unless_no_memory([&] { return plan(job); });
      const std::vector<std::string> differing =
          find_differing(job.request.tensors, job.keys, *verdict.owners, rank);
      if (!differing.empty() && options_.on_differing) options_.on_differing(differing);
    }
    job.own_bytes = new_bytes(job.layout);
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

}  // namespace stoker
