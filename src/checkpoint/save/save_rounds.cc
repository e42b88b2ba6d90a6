#include "checkpoint/save/save_rounds.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace stoker {
namespace {

constexpr std::size_t kMissedMax = 1000;

std::string key_of(const char* round, std::uint64_t number) {
  return std::string(round) + "-" + std::to_string(number);
}

/// Returns the verdict if the ranks save different steps. One that has failed before comes first.
std::optional<Verdict> find_difference(std::span<const BeginMessage> messages,
                                       std::uint64_t newest) {
  const BeginMessage& first = messages.front();
  if (!std::ranges::all_of(messages, [](const BeginMessage& one) { return one.failure.ok(); }))
    return std::nullopt;
  const auto other =
      std::ranges::find_if(messages, [&](const auto& one) { return one.step != first.step; });
  if (other == messages.end()) return std::nullopt;
  const bool is_known = std::ranges::all_of(
      messages, [&](const auto& one) { return one.step == newest || one.is_behind; });
  return Verdict{.action = is_known ? SaveAction::fail_behind : SaveAction::fail,
                 .failure = Status(Code::invalid_argument,
                                   "rank " + std::to_string(other - messages.begin()) +
                                       " saves step " + std::to_string(other->step) +
                                       " while rank 0 saves step " + std::to_string(first.step) +
                                       ": every rank must make the same calls of save()")};
}

/// Whether `verdict` is about another call than `own`, or lets this rank wait for the others.
bool is_passed(const BeginMessage& own, const Verdict& verdict, std::uint32_t rank) {
  // Rank 0 has not heard all ranks: its step says which call it is.
  if (verdict.calls.empty()) return verdict.step != own.step;
  if (rank >= verdict.calls.size() || verdict.calls[rank] != own.call) return true;
  return verdict.action == SaveAction::fail_behind && verdict.step == own.step;
}

Status late() {
  return Status(Code::unavailable,
                "the other ranks were behind, and did not come to this step before the deadline" +
                    std::string(kRankRule));
}

}  // namespace

void SaveRounds::call(BeginMessage& own) {
  own.call = ++call_;
  own.is_behind = missed_.contains(own.step);
}

void SaveRounds::learn(const BeginMessage& own, const Verdict& verdict) {
  ++number_;
  const bool is_failure =
      verdict.action == SaveAction::fail || verdict.action == SaveAction::fail_behind;
  if (!is_failure) {
    missed_.clear();
  } else if (!verdict.calls.empty() && own.step < verdict.step && missed_.size() < kMissedMax) {
    missed_.insert(verdict.step);
  }
}

Verdict SaveRounds::hear(const BeginMessage& own, const Decide& decide, Deadline deadline) {
  const std::uint64_t number = number_ + 1;
  const auto failed = [&](const Status& status) {
    return Verdict{.action = SaveAction::fail, .step = own.step, .failure = status};
  };
  const Result<std::vector<std::string>> texts =
      coordinator_.gather(key_of("begin", number), format_message(own), deadline);
  if (!texts.ok()) return failed(texts.status());
  std::vector<BeginMessage> messages{own};
  for (std::size_t rank = 1; rank < texts->size(); ++rank) {
    Result<BeginMessage> heard = parse_begin_message((*texts)[rank]);
    if (!heard.ok()) return failed(heard.status());
    messages.push_back(*std::move(heard));
  }
  const std::uint64_t newest = std::ranges::max(messages, {}, &BeginMessage::step).step;
  std::optional<Verdict> verdict = find_difference(messages, newest);
  if (!verdict) verdict = decide(number, messages);
  verdict->step = newest;
  for (const BeginMessage& message : messages) verdict->calls.push_back(message.call);
  return *std::move(verdict);
}

// The number counts as used only if the verdict is there: without it the other ranks use it again.
Result<SaveRounds::Agreed> SaveRounds::tell(const BeginMessage& own, const Verdict& verdict,
                                            Deadline deadline) {
  STOKER_TRY(
      coordinator_.broadcast(key_of("verdict", number_ + 1), format_message(verdict), deadline)
          .status());
  learn(own, verdict);
  return Agreed{.number = number_, .verdict = verdict};
}

Result<SaveRounds::Agreed> SaveRounds::lead(BeginMessage own, const Decide& decide,
                                            Deadline deadline) {
  call(own);
  for (;;) {
    STOKER_ASSIGN(Agreed agreed, tell(own, hear(own, decide, deadline), deadline));
    if (!is_passed(own, agreed.verdict, 0)) return agreed;
    if (Clock::now() >= deadline) return late();
  }
}

Result<SaveRounds::Agreed> SaveRounds::refuse(const BeginMessage& own, const Status& failure,
                                              Deadline deadline) {
  ++call_;
  return tell(own, {.action = SaveAction::fail, .step = own.step, .failure = failure}, deadline);
}

Result<SaveRounds::Agreed> SaveRounds::follow(BeginMessage own, Deadline deadline) {
  call(own);
  for (;;) {
    const std::string begin = key_of("begin", number_ + 1);
    STOKER_TRY(coordinator_.gather(begin, format_message(own), deadline).status());
    const Result<std::string> text =
        coordinator_.broadcast(key_of("verdict", number_ + 1), "", deadline);
    coordinator_.withdraw(begin);  // rank 0 may not have read it
    if (!text.ok()) return text.status();
    Result<Verdict> verdict = parse_verdict(*text);
    if (!verdict.ok()) {
      ++number_;
      return verdict.status();
    }
    learn(own, *verdict);
    if (!is_passed(own, *verdict, coordinator_.rank()))
      return Agreed{.number = number_, .verdict = *std::move(verdict)};
    // Rank 0 has heard a call that this rank has given up since, and waits for its part.
    if (verdict->action == SaveAction::go) {
      const PartMessage part{
          .failure =
              Status(Code::unavailable, "got no answer from rank 0 in time and gave up the save")};
      STOKER_TRY(
          coordinator_.gather(key_of("part", number_), format_message(part), deadline).status());
    }
    if (Clock::now() >= deadline) return late();
  }
}

}  // namespace stoker
