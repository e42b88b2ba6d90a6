#include "checkpoint/ranks/meeting_talk.h"

#include <fcntl.h>

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "base/token.h"
#include "checkpoint/directory/lock_record.h"
#include "checkpoint/manifest/names.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

constexpr int kSweptMax = 1000;  // attempts; each fails only if the directory was swept meanwhile
constexpr nanoseconds kStrangersTime = std::chrono::seconds(1);

}  // namespace

std::string Meeting::Talk::read(const std::string& name) const {
  Result<std::string> text = read_text_file(ops_, at(name), kMessageBytesMax);
  return text.ok() ? *std::move(text) : std::string();
}

/// Reads the directory. If our claim was swept, makes it again.
Result<Meeting::Talk::Look> Meeting::Talk::look() {
  Look seen = look_once();
  if (std::ranges::find(seen.claims, meeting_.nonce_, &RankClaim::nonce) != seen.claims.end())
    return seen;
  STOKER_TRY(meeting_.make_claim());
  return look_once();
}

Meeting::Talk::Look Meeting::Talk::look_once() {
  Look seen;
  const Result<std::vector<std::string>> names = ops_.list(meeting_.directory_);
  if (!names.ok()) return seen;
  for (const std::string& name : *names) {
    if (const auto claim = parse_word_name(name, kClaimPrefix)) {
      auto known = known_.find(claim->second);
      if (known == known_.end()) {
        const auto parsed = RankClaim::parse(read(name), claim->first, claim->second);
        if (!parsed) continue;
        known = known_.emplace(claim->second, *parsed).first;
      }
      seen.claims.push_back(known->second);
    } else if (name.starts_with(kWelcomePrefix)) {
      seen.welcomes[name.substr(kWelcomePrefix.size())] = read(name);
    } else if (const auto ready = parse_word_name(name, kReadyPrefix)) {
      seen.ready[ready->second] = read(name);
    } else if (name.starts_with(kRefusedPrefix)) {
      const std::optional<RankRefusal> refusal = RankRefusal::parse(read(name));
      if (refusal && refusal->nonces.contains(meeting_.nonce_))
        seen.refusal = text_for_people(refusal->text);
    }
  }
  return seen;
}

/// Whether the process of a claim still holds its lock. False if files cannot be locked. Tested
/// with a shared lock: two ranks that test at once must not take each other for the holder.
bool Meeting::Talk::is_alive(const RankClaim& claim) const {
  const Result<UniqueFd> fd =
      ops_.open(at(word_name(kClaimPrefix, claim.rank, claim.nonce)), O_RDWR | O_NONBLOCK);
  return fd.ok() && ops_.try_lock(fd->get(), LockMode::shared).code() == Code::unavailable;
}

Status Meeting::Talk::publish(const std::string& name, const std::string& text) {
  for (int attempt = 1;; ++attempt) {
    Status published = publish_message(ops_, at(name), text, meeting_.nonce_);
    if (published.code() != Code::not_found || attempt == kSweptMax) return published;
    STOKER_TRY(meeting_.make_claim());  // the directory was swept: claim again
  }
}

Status Meeting::Talk::pause() {
  const nanoseconds time = std::min(pause_, time_left(deadline_));
  pause_ = std::min<nanoseconds>(pause_ * 2, milliseconds(100));
  if (options_.pause) return options_.pause(time);
  std::this_thread::sleep_for(time);
  return {};
}

std::string Meeting::Talk::conflict_text(const RankClaim& one, const RankClaim& other) const {
  return "rank " + std::to_string(one.rank) + " of " + std::to_string(options_.world_size) +
         (one.rank == other.rank ? "" : " and rank " + std::to_string(other.rank)) + " in " +
         options_.place.path() + (one.rank == other.rank ? " is" : " are") +
         " claimed by processes of two jobs: " + one.who() + ", and " + other.who() +
         ". Give each job its own directory, or pass the same job= to all ranks of a job, new for "
         "each start";
}

/// Returns a message about two live processes that cannot belong to one job; empty if there are
/// none.
std::string Meeting::Talk::find_conflict(const Look& seen) const {
  const RankClaim own = meeting_.own_claim();
  for (const RankClaim& claim : seen.claims) {
    if (claim.nonce == own.nonce || claim.process == own.process) continue;
    const bool is_rival = claim.rank == own.rank || claim.is_of_another_job(own);
    if (is_rival && is_alive(claim)) return conflict_text(own, claim);
  }
  if (options_.rank != 0) return "";
  for (std::size_t i = 0; i < seen.claims.size(); ++i) {
    for (std::size_t k = i + 1; k < seen.claims.size(); ++k) {
      const RankClaim& one = seen.claims[i];
      const RankClaim& other = seen.claims[k];
      if (one.rank != other.rank || one.process == other.process) continue;
      // If files cannot be locked, a process that answers is alive.
      const auto answers = [&](const RankClaim& claim) {
        return seen.has_said(seen.ready, claim.nonce, meeting_.session_);
      };
      const bool may_both_live = !has_ended(one.process) && !has_ended(other.process);
      if ((is_alive(one) && is_alive(other)) || (may_both_live && answers(one) && answers(other)))
        return conflict_text(one, other);
    }
  }
  return "";
}

/// Removes the files of processes that are known to have ended.
void Meeting::Talk::remove_dead(const Look& seen) const {
  for (const auto& [nonce, text] : seen.welcomes)
    if (std::ranges::find(seen.claims, nonce, &RankClaim::nonce) == seen.claims.end())
      static_cast<void>(ops_.unlink(at(std::string(kWelcomePrefix) + nonce)));
  for (const RankClaim& claim : seen.claims) {
    const std::string name = word_name(kClaimPrefix, claim.rank, claim.nonce);
    const Result<UniqueFd> fd = ops_.open(at(name), O_RDWR | O_NONBLOCK);
    if (!fd.ok() || !ops_.try_lock(fd->get(), LockMode::shared).ok()) continue;
    static_cast<void>(ops_.unlink(at(name)));
    static_cast<void>(ops_.unlink(at(word_name(kReadyPrefix, claim.rank, claim.nonce))));
    static_cast<void>(ops_.unlink(at(word_name(kRefusedPrefix, claim.rank, claim.nonce))));
    if (claim.rank == 0)
      static_cast<void>(ops_.unlink(at(std::string(kWelcomePrefix) + claim.nonce)));
  }
}

/// When rank 0 stops to wait for processes that may never come: it needs the rest of its time.
Deadline Meeting::Talk::settled_after(nanoseconds time) const {
  return deadline_after(std::min(time, time_left(deadline_) / 2));
}

/// Whether to wait for ranks of another job that cannot be distinguished from these. Only if the
/// ranks are not all known to have the same launcher: two jobs that start at once might mix.
bool Meeting::Talk::awaits_strangers(const Look& seen) {
  const bool is_family = std::ranges::all_of(seen.claims, [&](const RankClaim& claim) {
    return options_.launcher.is_known() && claim.launcher == options_.launcher;
  });
  if (is_family) return false;
  if (!strangers_until_)
    strangers_until_ = settled_after(std::min<nanoseconds>(options_.settle, kStrangersTime));
  return Clock::now() < *strangers_until_;
}

/// Whether processes that may be ranks have not claimed a rank yet.
bool Meeting::Talk::awaits_siblings(const Look& seen) {
  if (!options_.siblings) return false;
  if (!settled_) settled_ = settled_after(options_.settle);
  if (Clock::now() >= *settled_) return false;
  const std::vector<std::int64_t> siblings = options_.siblings();
  return std::ranges::any_of(siblings, [&](std::int64_t pid) {
    return std::ranges::none_of(seen.claims, [&](const RankClaim& claim) {
      return claim.process.pid == pid && claim.process.space == meeting_.process_.space;
    });
  });
}

Status Meeting::Talk::is_over(const std::vector<std::uint32_t>& missing) {
  if (Clock::now() >= deadline_)
    return Status(Code::unavailable, name_ranks(missing) + " did not answer in time in " +
                                         options_.place.path() + options_.advice);
  if (!missing.empty()) {
    notice_.waiting([&] {
      return "rank " + std::to_string(options_.rank) + " of " +
             std::to_string(options_.world_size) + " waits for " + name_ranks(missing) + " in " +
             options_.place.path() + std::string(kRankRule) + options_.advice;
    });
  }
  return {};
}

/// Reports the conflict to all processes that are present or arrive within the settle time. If one
/// side simply left, the others would find no conflict and wait in vain.
Status Meeting::Talk::refuse(const std::string& conflict) {
  RankRefusal refusal{.nonces = {}, .text = conflict};
  std::string said;
  const Deadline until = std::min(deadline_, deadline_after(options_.settle));
  for (;;) {
    for (const RankClaim& claim : look_once().claims) refusal.nonces.insert(claim.nonce);
    if (std::string text = refusal.format(); text != said) {
      STOKER_TRY(publish(word_name(kRefusedPrefix, options_.rank, meeting_.nonce_), text));
      said = std::move(text);
    }
    if (Clock::now() >= until) return Status(Code::already_exists, conflict);
    STOKER_TRY(pause());
  }
}

/// `already_exists` if this rank or another one has detected two jobs.
Status Meeting::Talk::find_refusal(const Look& seen) {
  if (!seen.refusal.empty()) return Status(Code::already_exists, seen.refusal);
  const std::string conflict = find_conflict(seen);
  return conflict.empty() ? Status() : refuse(conflict);
}

// 1. Every rank claims its number with a random nonce, and keeps the claim locked.  2. Rank 0
// publishes a welcome: the session and the nonces it has seen.  3. A rank that finds its own nonce
// there publishes that it is ready: the welcome is meant for it.  4. When all are ready, rank 0
// publishes the nonces of the members. A rank whose time ended just then has left without its
// session: its next attempt finds the nonce of the earlier one among the members, and joins. Files
// left by an earlier start have other nonces and sessions. Two live claims to one rank, or ranks of
// one machine with different launchers, mean two jobs: the first rank that detects this refuses all
// processes present. Files that are swept meanwhile are published again.
Result<std::string> Meeting::Talk::lead() {
  RankWelcome welcome;
  welcome.session = make_token();
  meeting_.session_ = welcome.session;
  remove_dead(look_once());
  std::set<std::uint32_t> heard;  // ranks that were ready at some time
  for (;;) {
    STOKER_ASSIGN(const Look seen, look());
    STOKER_TRY(find_refusal(seen));
    std::vector<std::string> members(options_.world_size);
    members[0] = meeting_.nonce_;
    for (const RankClaim& claim : seen.claims) {
      if (claim.rank >= options_.world_size || claim.rank == 0 || has_ended(claim.process))
        continue;
      welcome.nonces.insert(claim.nonce);
      if (!seen.has_said(seen.ready, claim.nonce, welcome.session)) continue;
      members[claim.rank] = claim.nonce;
      heard.insert(claim.rank);
    }
    welcome.missing.clear();
    for (std::uint32_t rank = 1; rank < options_.world_size; ++rank)
      if (members[rank].empty()) welcome.missing.push_back(rank);
    const bool is_complete =
        welcome.missing.empty() && !awaits_siblings(seen) && !awaits_strangers(seen);
    if (is_complete) welcome.members = std::move(members);
    // A rank that was ready and then left did answer: name the others, if there are any.
    std::vector<std::uint32_t> silent = welcome.missing;
    std::erase_if(silent, [&](std::uint32_t rank) { return heard.contains(rank); });
    const Status over = is_complete ? Status() : is_over(silent.empty() ? welcome.missing : silent);
    if (!over.ok()) welcome.failure = over.message();
    if (const std::string text = welcome.format();
        !seen.has_said(seen.welcomes, meeting_.nonce_, text))
      STOKER_TRY(publish(std::string(kWelcomePrefix) + meeting_.nonce_, text));
    STOKER_TRY(over);
    if (is_complete) {
      meeting_.members_ = std::move(welcome.members);
      return welcome.session;
    }
    STOKER_TRY(pause());
  }
}

bool Meeting::Talk::is_this_rank(const std::string& nonce) const {
  return nonce == meeting_.nonce_ ||
         (options_.attempts != nullptr &&
          std::ranges::find(*options_.attempts, nonce) != options_.attempts->end());
}

Result<std::string> Meeting::Talk::follow() {
  std::vector<std::uint32_t> missing = {0};
  for (;;) {
    STOKER_ASSIGN(const Look seen, look());
    for (const auto& [nonce, text] : seen.welcomes) {
      const std::optional<RankWelcome> heard = RankWelcome::parse(text);
      if (!heard) continue;
      if (heard->members.size() == options_.world_size &&
          is_this_rank(heard->members[options_.rank])) {
        STOKER_TRY(meeting_.claim_again_as(heard->members[options_.rank]));
        meeting_.members_ = heard->members;
        return heard->session;
      }
      if (!heard->nonces.contains(meeting_.nonce_)) continue;
      if (!heard->failure.empty())
        return Status(Code::unavailable, text_for_people(heard->failure));
      missing = heard->missing;
      std::erase(missing, options_.rank);
      if (!heard->members.empty() || seen.has_said(seen.ready, meeting_.nonce_, heard->session))
        continue;
      STOKER_TRY(publish(word_name(kReadyPrefix, options_.rank, meeting_.nonce_), heard->session));
    }
    STOKER_TRY(find_refusal(seen));
    STOKER_TRY(is_over(missing.empty() ? std::vector<std::uint32_t>{0} : missing));
    STOKER_TRY(pause());
  }
}

}  // namespace stoker
