#include "checkpoint/ranks/meeting.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/token.h"
#include "checkpoint/directory/lock_record.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/ranks/meeting_talk.h"
#include "checkpoint/ranks/meeting_words.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::string_view kNeed = "The ranks meet by small files, which need";
constexpr std::size_t kAttemptsMax = 100;  // attempts that are remembered
constexpr int kSweptMax = 1000;  // attempts; each fails only if the directory was swept meanwhile

}  // namespace

Meeting::Meeting(const MeetingOptions& options)
    : options_(options),
      directory_(options.place.at(meeting_name(options.word))),
      nonce_(make_token()),
      process_(options.process ? *options.process : this_process()) {}

RankClaim Meeting::own_claim() const {
  return {.rank = options_.rank,
          .nonce = nonce_,
          .host = this_host(),
          .process = process_,
          .launcher = options_.launcher};
}

/// Gives the claim the nonce by which the other ranks know this one.
Status Meeting::claim_again_as(const std::string& nonce) {
  if (nonce == nonce_) return {};
  static_cast<void>(
      options_.place.ops().unlink(directory_ / word_name(kClaimPrefix, options_.rank, nonce_)));
  nonce_ = nonce;
  return make_claim();
}

Status Meeting::make_claim() {
  for (int attempt = 1;; ++attempt) {
    Status made = try_claim();
    if (made.code() != Code::not_found || attempt == kSweptMax) return made;
  }
}

// Locks the file before it gets its name, so that other ranks never see it unlocked. `not_found` if
// the directory is swept meanwhile.
Status Meeting::try_claim() {
  FileOps& ops = options_.place.ops();
  Status made = ops.mkdir(directory_);
  if (!made.ok() && made.code() != Code::already_exists) return made;
  const PathAt staged = directory_ / ("staged-claim-" + nonce_);
  static_cast<void>(ops.unlink(staged));
  STOKER_ASSIGN(UniqueFd fd, ops.open(staged, O_RDWR | O_CREAT | O_EXCL));
  Status locked = ops.try_lock(fd.get(), LockMode::exclusive);
  if (!locked.ok() && locked.code() != Code::unsupported) return locked;
  STOKER_TRY(write_text(ops, fd.get(), own_claim().format(beat_)).with_context(staged.text()));
  STOKER_TRY(ops.rename(staged, directory_ / word_name(kClaimPrefix, options_.rank, nonce_)));
  claim_ = std::make_unique<ForkClosedFd>(std::move(fd));
  return {};
}

Status Meeting::start_heartbeat() {
  if (options_.ttl <= nanoseconds(0)) return {};
  try {
    heartbeat_ =
        std::make_unique<std::jthread>([this](std::stop_token stop) { keep_beating(stop); });
  } catch (const std::system_error& error) {
    return Status(Code::unavailable,
                  std::string("cannot start the meeting thread: ") + error.what());
  }
  return {};
}

void Meeting::keep_beating(std::stop_token stop) {
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
    if (stop.stop_requested()) return;
    ++beat_;
    // A failure is not reported: at worst the directory is swept and created again.
    static_cast<void>(write_text(options_.place.ops(), claim_->get(), own_claim().format(beat_)));
  }
}

Result<std::unique_ptr<Meeting>> Meeting::meet(const MeetingOptions& options, Deadline deadline) {
  if (options.world_size == 0 || options.rank >= options.world_size || !is_plain_word(options.word))
    return Status(Code::invalid_argument, "meeting: rank " + std::to_string(options.rank) + " of " +
                                              std::to_string(options.world_size) + ", word \"" +
                                              options.word + "\"");
  std::unique_ptr<Meeting> meeting(new Meeting(options));
  if (options.attempts != nullptr) {
    if (options.attempts->size() >= kAttemptsMax)
      options.attempts->erase(options.attempts->begin());
    options.attempts->push_back(meeting->nonce_);
  }
  const auto met = [&]() -> Result<std::string> {
    STOKER_TRY(meeting->make_claim());
    Talk talk(*meeting, deadline);
    return options.rank == 0 ? talk.lead() : talk.follow();
  }();
  if (!met.ok()) return with_space_cure(met.status(), kNeed);
  meeting->session_ = *met;
  meeting->has_met_ = true;
  STOKER_TRY(meeting->start_heartbeat());
  return meeting;
}

Result<std::unique_ptr<Meeting>> Meeting::enter(const MeetingOptions& options,
                                                const std::string& session) {
  std::unique_ptr<Meeting> meeting(new Meeting(options));
  meeting->session_ = session;
  meeting->has_met_ = true;
  if (const Status made = meeting->make_claim(); !made.ok()) return with_space_cure(made, kNeed);
  STOKER_TRY(meeting->start_heartbeat());
  return meeting;
}

Result<std::unique_ptr<Coordinator>> Meeting::make_coordinator() const {
  return make_shared_directory_coordinator(
      {.place = options_.place,
       .word = options_.word,
       .session = session_,
       .rank = options_.rank,
       .world_size = options_.world_size,
       .pause = options_.pause,
       .on_wait = options_.on_wait,
       .find_loss = [this](std::uint32_t rank) { return find_loss(rank); }});
}

Status Meeting::find_loss(std::uint32_t rank) const {
  FileOps& ops = options_.place.ops();
  const Result<std::vector<std::string>> names = ops.list(directory_);
  if (!names.ok()) return {};
  bool is_there = members_.empty();
  std::string refusal;
  for (const std::string& name : *names) {
    if (name.starts_with(kRefusedPrefix)) {
      const Result<std::string> text = read_text_file(ops, directory_ / name, kMessageBytesMax);
      const auto refused = text.ok() ? RankRefusal::parse(*text) : std::optional<RankRefusal>();
      if (refused && refused->nonces.contains(nonce_)) refusal = text_for_people(refused->text);
    }
    const auto word = parse_word_name(name, kClaimPrefix);
    if (!word || word->first != rank) continue;
    if (!members_.empty() && members_[rank] != word->second) continue;
    is_there = true;
    const Result<std::string> text = read_text_file(ops, directory_ / name, kMessageBytesMax);
    const auto claim =
        text.ok() ? RankClaim::parse(*text, rank, word->second) : std::optional<RankClaim>();
    if (!claim || !has_ended(claim->process)) continue;
    // A live process that is hidden from us still holds the lock of its claim.
    const Result<UniqueFd> fd = ops.open(directory_ / name, O_RDWR | O_NONBLOCK);
    if (fd.ok() && ops.try_lock(fd->get(), LockMode::shared).ok())
      return Status(Code::unavailable, "rank " + std::to_string(rank) + " has ended (" +
                                           claim->who() + ") in " + options_.place.path());
  }
  // A live session is not ended by those who come later and are refused: its members stay.
  if (is_there || refusal.empty()) return {};
  const MutexLock lock(mutex_);
  conflict_ = refusal;
  return Status(Code::unavailable, refusal);
}

std::string Meeting::conflict() const {
  const MutexLock lock(mutex_);
  return conflict_;
}

Meeting::~Meeting() {
  if (!guard_.is_here()) {
    static_cast<void>(heartbeat_.release());
    return;
  }
  heartbeat_.reset();
  if (claim_ == nullptr) return;
  FileOps& ops = options_.place.ops();
  // What is not removed here is swept by a writer (MeetingSweep).
  static_cast<void>(ops.unlink(directory_ / word_name(kClaimPrefix, options_.rank, nonce_)));
  static_cast<void>(ops.unlink(directory_ / word_name(kReadyPrefix, options_.rank, nonce_)));
  static_cast<void>(ops.unlink(directory_ / word_name(kRefusedPrefix, options_.rank, nonce_)));
  if (options_.rank == 0 && has_met_) {  // otherwise the others read the failure in the welcome
    static_cast<void>(ops.unlink(directory_ / (std::string(kWelcomePrefix) + nonce_)));
    const Result<std::vector<std::string>> names = ops.list(directory_);
    if (names.ok())
      for (const std::string& name : *names)
        if (name.starts_with("message-" + session_ + "-"))
          static_cast<void>(ops.unlink(directory_ / name));
  }
  static_cast<void>(ops.rmdir(directory_));
}

}  // namespace stoker
