#include "checkpoint/ranks/carried_meeting.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/token.h"
#include "checkpoint/directory/lock_record.h"
#include "checkpoint/ranks/carried_place.h"
#include "checkpoint/ranks/message_json.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;
using Verb = CarriedRequest::Verb;

constexpr nanoseconds kPauseMax = milliseconds(100);
constexpr std::size_t kEnteredMax = 100;  // sessions that are remembered

/// Between two looks of each rank, so that all of them together look 1,000 times a second.
nanoseconds pause_max_of(std::uint32_t world_size) {
  return std::clamp<nanoseconds>(milliseconds(world_size), kPauseMax, milliseconds(1000));
}

/// What rank 0 says about its session.
struct SessionWelcome {
  std::string session;
  std::string doing;  // the purpose and the directory
  RankClaim leader = {};

  std::string format() const {
    return message_text({{"session", session}, {"doing", doing}, {"leader", leader.format(0)}});
  }
  /// Returns nothing for a text that is none.
  static std::optional<SessionWelcome> parse(const std::string& text) {
    MessageMembers members(text);
    SessionWelcome welcome{.session = members.text("session"), .doing = members.text("doing")};
    const std::string leader = members.text("leader");
    if (!members.check(is_plain_word(welcome.session)).ok()) return std::nullopt;
    const std::optional<RankClaim> claim = RankClaim::parse(leader, 0, "");
    if (!claim) return std::nullopt;
    welcome.leader = *claim;
    return welcome;
  }
};

}  // namespace

std::optional<RankClaim> KnownRanks::find(std::uint32_t rank) const {
  const MutexLock lock(mutex_);
  const auto found = claims_.find(rank);
  return found == claims_.end() ? std::nullopt : std::optional(found->second);
}

void KnownRanks::learn(const RankClaim& claim) {
  const MutexLock lock(mutex_);
  claims_.insert_or_assign(claim.rank, claim);
}

CarriedMeeting::CarriedMeeting(const CarriedMeetingOptions& options)
    : options_(options), process_(options.process ? *options.process : this_process()) {
  options_.carrier->enter();
}

RankClaim CarriedMeeting::own_claim() const {
  return {
      .rank = options_.rank, .nonce = {}, .host = this_host(), .process = process_, .launcher = {}};
}

std::string CarriedMeeting::conflict_text(const RankClaim& other) const {
  return "rank " + std::to_string(options_.rank) + " in " + options_.where +
         " is two processes: " + other.who() +
         (has_ended(other.process) ? ", which has ended, and " : " and ") + own_claim().who() +
         ". All ranks of a job must start together, each as one process";
}

/// Returns the text of a name; empty if there is none.
Result<std::string> CarriedMeeting::find(const std::string& name, Deadline deadline) const {
  STOKER_ASSIGN(
      std::vector<std::string> texts,
      options_.carrier->call({.verb = Verb::find, .names = {name}}, deadline, options_.pause));
  return texts.empty() ? std::string() : std::move(texts.front());
}

/// Claims this rank in the session.
Status CarriedMeeting::claim(Deadline deadline) {
  const std::string own = own_claim().format(0);
  STOKER_ASSIGN(const std::vector<std::string> found,
                options_.carrier->call(
                    {.verb = Verb::claim, .names = {claim_key(options_.rank)}, .text = own},
                    deadline, options_.pause));
  if (found.empty() || found.front() == own) return {};
  const auto other = RankClaim::parse(found.front(), options_.rank, "");
  return Status(Code::already_exists, conflict_text(other.value_or(RankClaim())));
}

// The welcome is published last: a rank that finds it finds everything else.
Status CarriedMeeting::lead(Deadline deadline) {
  const std::string key = welcome_key(options_.purpose);
  STOKER_ASSIGN(const std::string there, find(key, deadline));
  const auto earlier = SessionWelcome::parse(there);
  // On another machine it is not known to run: a job that was started again replaces it.
  if (earlier && earlier->leader.process != process_ &&
      earlier->leader.process.space == process_.space && !has_ended(earlier->leader.process))
    return Status(Code::already_exists, conflict_text(earlier->leader));
  session_ = make_token();
  STOKER_TRY(claim(deadline));
  welcome_ = SessionWelcome{.session = session_,
                            .doing = options_.purpose + " " + options_.where,
                            .leader = own_claim()}
                 .format();
  return options_.carrier
      ->call({.verb = Verb::put, .names = {key}, .text = welcome_}, deadline, options_.pause)
      .status();
}

Status CarriedMeeting::follow(Deadline deadline) {
  const auto find_new = [&](const std::string& purpose) -> Result<std::optional<SessionWelcome>> {
    STOKER_ASSIGN(const std::string text, find(welcome_key(purpose), deadline));
    auto welcome = SessionWelcome::parse(text);
    if (welcome && (has_ended(welcome->leader.process) ||
                    std::ranges::count(*options_.entered, welcome->session) > 0))
      welcome.reset();
    return welcome;
  };
  const std::string who =
      "rank " + std::to_string(options_.rank) + " of " + std::to_string(options_.world_size);
  const nanoseconds pause_max = pause_max_of(options_.world_size);
  WaitNotice notice(options_.on_wait);
  for (nanoseconds time = milliseconds(1);; time = std::min(time * 2, pause_max)) {
    STOKER_ASSIGN(const std::optional<SessionWelcome> welcome, find_new(options_.purpose));
    if (welcome) {
      session_ = welcome->session;
      learn(welcome->leader);
      break;
    }
    if (time == pause_max) {
      for (const std::string& purpose : options_.other_purposes) {
        STOKER_ASSIGN(const std::optional<SessionWelcome> other, find_new(purpose));
        if (other)
          return Status(Code::invalid_argument,
                        "rank 0 does " + text_for_people(other->doing) + ", and rank " +
                            std::to_string(options_.rank) + " does " + options_.purpose + " " +
                            options_.where + ": every rank makes the same calls in the same order");
      }
      STOKER_TRY(find_earlier_loss(0));
    }
    if (Clock::now() >= deadline)
      return Status(Code::unavailable,
                    "rank 0 did not answer in time in " + options_.where + std::string(kRankRule));
    notice.waiting(
        [&] { return who + " waits for rank 0 in " + options_.where + std::string(kRankRule); });
    const nanoseconds left = std::min(time, time_left(deadline));
    if (options_.pause)
      STOKER_TRY(options_.pause(left));
    else
      std::this_thread::sleep_for(left);
  }
  return claim(deadline);
}

Result<std::unique_ptr<CarriedMeeting>> CarriedMeeting::meet(const CarriedMeetingOptions& options,
                                                             Deadline deadline) {
  if (options.world_size == 0 || options.rank >= options.world_size)
    return Status(Code::invalid_argument, "meeting: rank " + std::to_string(options.rank) + " of " +
                                              std::to_string(options.world_size));
  std::unique_ptr<CarriedMeeting> meeting(new CarriedMeeting(options));
  STOKER_TRY(options.rank == 0 ? meeting->lead(deadline) : meeting->follow(deadline));
  std::vector<std::string>& entered = *options.entered;
  if (entered.size() >= kEnteredMax) entered.erase(entered.begin());
  entered.push_back(meeting->session_);
  return meeting;
}

Result<std::unique_ptr<Coordinator>> CarriedMeeting::make_coordinator() const {
  return stoker::make_coordinator(
      std::make_unique<CarriedPlace>(CarriedPlaceOptions{
          .carrier = options_.carrier, .prefix = prefix(), .pause = options_.pause}),
      {.rank = options_.rank,
       .world_size = options_.world_size,
       .where = options_.where,
       .pause = options_.pause,
       .pause_max = pause_max_of(options_.world_size),
       .on_wait = options_.on_wait,
       .find_loss = [this](std::uint32_t rank) { return find_loss(rank); },
       .removes_last = true});
}

void CarriedMeeting::learn(const RankClaim& claim) const {
  if (options_.known) options_.known->learn(claim);
  const MutexLock lock(mutex_);
  claims_.emplace(claim.rank, claim);
}

Status CarriedMeeting::check_process(const RankClaim& claim) const {
  if (!has_ended(claim.process)) return {};
  return Status(Code::unavailable, "rank " + std::to_string(claim.rank) + " has ended (" +
                                       claim.who() + ") in " + options_.where);
}

Status CarriedMeeting::find_earlier_loss(std::uint32_t rank) const {
  const auto claim = options_.known ? options_.known->find(rank) : std::nullopt;
  return claim ? check_process(*claim) : Status();
}

Status CarriedMeeting::find_loss(std::uint32_t rank) const {
  std::optional<RankClaim> claim;
  {
    const MutexLock lock(mutex_);
    if (const auto known = claims_.find(rank); known != claims_.end()) claim = known->second;
  }
  if (!claim) {
    const Result<std::string> text = find(claim_key(rank), Clock::now());
    if (text.ok()) claim = RankClaim::parse(*text, rank, "");
    if (!claim) return find_earlier_loss(rank);
    learn(*claim);
  }
  return check_process(*claim);
}

// Not Verb::remove: a later session may have replaced it.
CarriedRequest CarriedMeeting::no_welcome() const {
  return {.verb = Verb::retire, .names = {welcome_key(options_.purpose)}, .text = welcome_};
}

void CarriedMeeting::end(Deadline deadline) {
  if (std::exchange(is_over_, true)) return;
  if (!welcome_.empty() && !options_.carrier->call(no_welcome(), deadline, {}).ok())
    options_.carrier->post(no_welcome());
  options_.carrier->leave();
}

CarriedMeeting::~CarriedMeeting() {
  if (!guard_.is_here()) return;
  if (!welcome_.empty()) {
    CarriedRequest request{.verb = Verb::remove};
    for (std::uint32_t rank = 0; rank < options_.world_size; ++rank)
      request.names.push_back(claim_key(rank));
    options_.carrier->post(std::move(request));
  }
  if (is_over_) return;
  if (!welcome_.empty()) options_.carrier->post(no_welcome());
  options_.carrier->leave();
}

}  // namespace stoker
