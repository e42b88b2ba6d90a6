#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <span>

#include "base/clock.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/save/save_messages.h"
#include "stoker/status.h"

namespace stoker {

/// Returns when a rank has to give up what it waits for, so that the others, which wait for it
/// until `deadline`, get the reason: earlier by a tenth of the time, at most by 5 seconds.
inline Deadline answer_deadline(Deadline deadline, std::uint32_t world_size) {
  constexpr nanoseconds kAnswerTime = std::chrono::seconds(5);
  if (world_size == 1 || deadline == Deadline::max()) return deadline;
  return deadline - std::min<nanoseconds>(time_left(deadline) / 10, kAnswerTime);
}

/// The rounds in which the ranks agree on each save, and their numbers.
///
/// A round is one gather (BeginMessage) and one broadcast (Verdict). Ranks that make different
/// calls synchronize again:
/// - A rank whose call gets no verdict withdraws its message and uses the number again.
/// - A verdict says which calls of which ranks it answers. A rank that finds a verdict for another
///   call than its own, such as one that rank 0 made alone, tries the next number.
/// - If the ranks save different steps, the call fails on all of them. A rank that was behind then
///   knows which step failed on the others before it came there. If its call for that step meets a
///   later step, it fails alone, and the others wait for its next call.
///
/// A rank that misses more calls of rank 0 than the coordinator keeps verdicts for cannot
/// synchronize again.
///
/// Thread safety: none.
class SaveRounds {
 public:
  /// What the ranks have agreed on. The number is the same on all of them, and never used again.
  struct Agreed {
    std::uint64_t number = 0;
    Verdict verdict;
  };
  /// Decides about a save, given the messages of all ranks.
  using Decide = std::function<Verdict(std::uint64_t number, std::span<const BeginMessage>)>;

  explicit SaveRounds(Coordinator& coordinator) : coordinator_(coordinator) {}

  /// On rank 0: receives their messages, decides, and broadcasts the verdict.
  Result<Agreed> lead(BeginMessage own, const Decide& decide, Deadline deadline);
  /// On rank 0: tells the others that it cannot save.
  Result<Agreed> refuse(const BeginMessage& own, const Status& failure, Deadline deadline);
  /// On the other ranks: sends the message, and returns what rank 0 says about it.
  Result<Agreed> follow(BeginMessage own, Deadline deadline);

  /// Whether this rank has sent or said anything.
  bool has_begun() const noexcept { return call_ > 0; }

 private:
  void call(BeginMessage& own);
  Verdict hear(const BeginMessage& own, const Decide& decide, Deadline deadline);
  Result<Agreed> tell(const BeginMessage& own, const Verdict& verdict, Deadline deadline);
  void learn(const BeginMessage& own, const Verdict& verdict);

  Coordinator& coordinator_;
  std::uint64_t number_ = 0;        // of the last round that has a verdict
  std::uint64_t call_ = 0;          // counts the calls of save() on this rank
  std::set<std::uint64_t> missed_;  // steps that failed because this rank was behind
};

}  // namespace stoker
