#include "checkpoint/directory/writer_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/token.h"
#include "checkpoint/directory/notes_directory.h"
#include "checkpoint/manifest/manifest_file.h"
#include "io/files/lock_file.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

constexpr int kLooksMin = 8;  // looks without a change before a writer is presumed dead
/// Of two concurrent claims one fails and is repeated with the next epoch.
constexpr int kClaimsMax = 1000;

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// On a full disk even `prune` cannot take the lock, which needs a file and a directory.
Status with_cure(const Status& failure) {
  return with_space_cure(failure, "The lock needs");
}

constexpr std::string_view kThisProcess = "this process";

/// For messages.
std::string who_of(const LockRecord& record) {
  if (record.pid != ::getpid() || record.machine != this_machine()) return record.who();
  return std::string(kThisProcess) + ", " + record.who();
}

}  // namespace

WriterLock::WriterLock(const CheckpointDirectory& directory, const LockOptions& options,
                       UniqueFd flock_fd, std::uint64_t device)
    : directory_(directory),
      options_(options),
      epochs_(directory),
      flock_(std::move(flock_fd)),
      record_{.token = options.token.empty() ? make_token() : options.token,
              .machine = options.machine ? *options.machine : this_machine(),
              .device = device,
              .pid = ::getpid(),
              .job = options.job},
      begun_(now()),
      owner_(directory, record_.token),
      meetings_(owner_, options.ttl) {}

// 1. Lock `.lock`.  2. Wait until the greatest epoch is released or its holder is dead.  3. Claim
// the next epoch.  4. Create the owner's directory.  5. List again: the greatest epoch wins.
// 6. Fence all other owners (takeover), then sweep what they have left.
Result<std::unique_ptr<WriterLock>> WriterLock::acquire(const CheckpointDirectory& directory,
                                                        const LockOptions& options) {
  const std::string context = "lock " + directory.path();
  STOKER_ASSIGN(UniqueFd fd, open_lock_file(directory.ops(), directory.at(kLockName)));
  STOKER_ASSIGN(const FileInfo info, directory.ops().info_of(directory.self()));
  std::unique_ptr<WriterLock> lock(new WriterLock(directory, options, std::move(fd), info.device));
  const Deadline deadline = deadline_after(options.timeout, lock->now());
  STOKER_TRY(lock->await_flock(deadline).with_context(context));
  for (int attempt = 1;; ++attempt) {
    const Result<LockEpoch> before = lock->await_epoch(deadline);
    if (!before.ok()) return before.status().with_context(context);
    if (before->number >= kEpochMax)
      return Status(Code::invalid_argument, context + ": " + epoch_name(before->number) +
                                                " has the largest possible number; remove it");
    const Result<bool> is_claimed = lock->claim(before->number + 1);
    if (!is_claimed.ok()) return with_cure(is_claimed.status()).with_context(context);
    if (*is_claimed) break;
    if (attempt == kClaimsMax)
      return Status(Code::unavailable, context + ": other writers always claimed it first");
  }
  if (const Status settled = lock->settle(); !settled.ok())
    return with_cure(lock->explain(settled)).with_context(context);
  return lock;
}

void WriterLock::pause(nanoseconds time) const {
  if (options_.pause) return options_.pause(time);
  std::this_thread::sleep_for(time);
}

std::optional<OldLockRecord> WriterLock::read_old_record() const {
  std::array<char, kLockRecordBytes> text{};
  const ssize_t n = ::pread(flock_.get(), text.data(), text.size(), 0);
  if (n <= 0) return std::nullopt;
  return parse_old_lock_record(std::string_view(text.data(), static_cast<std::size_t>(n)));
}

std::string WriterLock::holder() const {
  const Result<LockEpoch> epoch = epochs_.greatest();
  if (epoch.ok() && epoch->record && !epoch->record->is_released) return who_of(*epoch->record);
  const std::optional<OldLockRecord> old = read_old_record();
  return old ? old->who() : "unknown writer";
}

/// For messages; empty if it was told not to wait.
std::string WriterLock::waited() const {
  const std::chrono::duration<double> time = now() - begun_;
  return options_.timeout > nanoseconds(0) ? fmt::format(" (waited {:.1f} s)", time.count()) : "";
}

Status WriterLock::held_by(const std::string& who) const {
  const std::string_view cure =
      who.starts_with(kThisProcess) ? "close that writer" : "wait for it to end, stop it";
  return {Code::unavailable, "another writer holds it: " + who + waited() + "; " +
                                 std::string(cure) + ", or use another directory"};
}

Status WriterLock::await_flock(Deadline deadline) {
  WaitNotice notice(options_.on_wait);
  for (nanoseconds wait = milliseconds(1);;
       wait = std::min<nanoseconds>(wait * 2, milliseconds(250))) {
    Status locked = directory_.ops().try_lock(flock_.get(), LockMode::exclusive);
    has_flock_ = locked.ok();
    // On a filesystem without flock the epochs alone decide.
    if (locked.ok() || locked.code() == Code::unsupported) return {};
    if (locked.code() != Code::unavailable) return locked;
    if (now() >= deadline) return held_by(holder());
    notice.waiting([&] {
      return "waiting for the lock of " + directory_.path() + ", which " + holder() + " holds";
    });
    pause(std::min(wait, time_left(deadline, now())));
  }
}

// By the rule of version 0.1: once we have the flock, a record of this host is stale; a record of
// another host is watched for the ttl, unless its time is old.
Status WriterLock::await_old_version(Deadline deadline) {
  constexpr double kTtlsToBeStale = 3;
  std::optional<OldLockRecord> seen = read_old_record();
  if (!seen || seen->host == old_host_name(record_.machine)) return {};
  const double ttl_s = std::chrono::duration<double>(options_.ttl).count();
  if (wall_time_s() - seen->time_s > kTtlsToBeStale * ttl_s) return {};
  for (Deadline dead_at = deadline_after(options_.ttl, now()); now() < dead_at;) {
    if (now() >= deadline) return held_by(seen->who());
    pause(std::min({options_.ttl / 8, time_left(deadline, now()), time_left(dead_at, now())}));
    std::optional<OldLockRecord> again = read_old_record();
    if (!again) return {};  // released
    if (*again == *seen) continue;
    seen = std::move(again);
    dead_at = deadline_after(options_.ttl, now());
  }
  return {};
}

/// Waits until the greatest epoch is released or its holder dead, and returns it.
Result<LockEpoch> WriterLock::await_epoch(Deadline deadline) {
  STOKER_ASSIGN(LockEpoch epoch, epochs_.greatest());
  if (epoch.number == 0) {
    STOKER_TRY(await_old_version(deadline));
    return epoch;
  }
  while (!epoch.record || !epoch.record->is_released) {
    // A live holder on this machine would have the flock.
    const bool is_here = has_flock_ && epoch.record && epoch.record->device == record_.device &&
                         !record_.machine.boot_id.empty() &&
                         epoch.record->machine.boot_id == record_.machine.boot_id;
    if (is_here) break;
    const LockEpoch seen = epoch;
    STOKER_TRY(await_silence(epoch, deadline));
    if (epoch == seen) break;
  }
  return epoch;
}

// Watches until the epoch has not changed for the ttl, by our own clock, in kLooksMin looks; until
// it is released; or until there is a newer epoch. If this process was suspended meanwhile the
// watch starts again: the holder may have been suspended too.
Status WriterLock::await_silence(LockEpoch& epoch, Deadline deadline) {
  const nanoseconds ttl = std::max<nanoseconds>(options_.ttl, milliseconds(1));
  WaitNotice notice(options_.on_wait);
  Deadline since = now();
  Deadline last_look = since;
  for (int looks = 1; looks < kLooksMin || last_look - since < ttl;) {
    const auto who = [&] { return epoch.record ? who_of(*epoch.record) : std::string("unknown"); };
    if (now() >= deadline)
      return Status(Code::unavailable,
                    fmt::format("another writer holds it, or held it a moment ago: {}{}; it is "
                                "presumed dead after {} s without a heartbeat",
                                who(), waited(), std::chrono::duration<double>(ttl).count()));
    notice.waiting([&] {
      return "waiting for the lock of " + directory_.path() + ", held or left behind by " + who() +
             " on another machine";
    });
    pause(std::min(ttl / (2 * kLooksMin), time_left(deadline, now())));
    STOKER_ASSIGN(LockEpoch again, epochs_.greatest());
    const Deadline look = now();
    const bool is_new = again.number != epoch.number;
    const bool has_changed = again != epoch || look - last_look > ttl / 4;
    epoch = std::move(again);
    last_look = look;
    if (is_new || (epoch.record && epoch.record->is_released)) return {};
    looks = has_changed ? 1 : looks + 1;
    if (has_changed) since = look;
  }
  return {};
}

/// Claims an epoch and creates the owner's directory. Returns false if another writer was faster.
Result<bool> WriterLock::claim(std::uint64_t number) {
  STOKER_ASSIGN(std::optional<UniqueFd> fd, epochs_.create(number, record_));
  if (!fd) return false;
  epoch_fd_ = std::make_unique<ForkClosedFd>(*std::move(fd));
  epoch_ = number;
  directory_.ops().reached("takeover.claimed");
  const Status made = owner_.make();
  if (!made.ok() && made.code() != Code::already_exists) {
    // Nothing was fenced yet. Otherwise each attempt on a full disk would leave one file more.
    static_cast<void>(directory_.ops().rmdir(owner_.self()));
    epoch_fd_.reset();
    epochs_.remove(number);
    return made;
  }
  STOKER_ASSIGN(const LockEpoch greatest, epochs_.greatest());
  if (greatest.number == number) return true;
  static_cast<void>(directory_.ops().rmdir(owner_.self()));
  return false;
}

/// Of two concurrent claimants each tries to fence the other, and the first to do so wins: not
/// always the one with the greater epoch. If this one was fenced by a lower epoch, it removes its
/// own epoch, so that the holder's epoch is the greatest.
Status WriterLock::explain(const Status& failure) const {
  if (const std::optional<std::string> successor = find_successor()) return held_by(*successor);
  if (!is_gone(failure) || directory_.ops().info_of(owner_.self()).ok()) return failure;
  const Result<LockEpoch> rival = epochs_.greatest(epoch_);
  epochs_.remove(epoch_);
  return held_by(rival.ok() && rival->record ? who_of(*rival->record) : "unknown writer");
}

Status WriterLock::settle() {
  STOKER_TRY(owner_.take_over());
  epochs_.remove_before(epoch_);
  is_settled_ = true;
  STOKER_TRY(owner_.sweep());
  sweep_staged_notes(directory_);
  if (options_.ttl <= nanoseconds(0)) return {};
  try {
    heart_ = std::make_unique<std::jthread>([this](std::stop_token stop) { keep_beating(stop); });
  } catch (const std::system_error& error) {
    return Status(Code::unavailable, std::string("cannot start the lock thread: ") + error.what());
  }
  return {};
}

void WriterLock::beat() {
  ++record_.beat;
  // A failure is not reported: at worst another writer takes over, which the fence makes safe.
  static_cast<void>(epochs_.write(epoch_fd_->get(), record_));
  meetings_.look();
}

void WriterLock::keep_beating(std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mutex_);
    stopped_.notify_all();
  });
  while (!stop.stop_requested()) {
    const Deadline next = deadline_after(options_.ttl / 8);
    {
      MutexLock lock(mutex_);
      while (!stop.stop_requested() && Clock::now() < next) stopped_.wait_until(mutex_, next);
    }
    if (!stop.stop_requested()) beat();
  }
}

std::optional<std::string> WriterLock::find_successor() const {
  const Result<LockEpoch> epoch = epochs_.greatest();
  if (!epoch.ok() || epoch->number <= epoch_) return std::nullopt;
  return epoch->record ? who_of(*epoch->record) : "unknown writer";
}

WriterLock::~WriterLock() {
  if (!guard_.is_here()) {
    static_cast<void>(heart_.release());
    return;
  }
  heart_.reset();
  if (epoch_fd_ == nullptr) return;
  // What cannot be removed is left to the next writer.
  if (is_settled_) {
    const Result<std::vector<std::string>> names = directory_.ops().list(owner_.self());
    if (names.ok())
      for (const std::string& name : *names)
        if (!parse_aside_name(name)) owner_.discard(name);
  }
  static_cast<void>(directory_.ops().rmdir(owner_.self()));
  record_.is_released = true;
  static_cast<void>(epochs_.write(epoch_fd_->get(), record_));
}

}  // namespace stoker
