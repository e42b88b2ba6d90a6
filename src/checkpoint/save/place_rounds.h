#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/save/pending.h"
#include "stoker/status.h"

namespace stoker {

/// The rounds in which the places of a save commit it together (manifest/places.h). Every rank
/// takes part in both; ranks that do not lead a place have nothing to report.
///
/// 1. sealed(): all of it is durable in every place, but visible in none. If a place fails, none
///    publishes it.
/// 2. durable(): it is durable under its name in every place. If a place fails, others may have it:
///    no restore takes it, because not all have.
///
/// Thread safety: none.
class PlaceRounds {
 public:
  /// `number`: that of the save.
  PlaceRounds(Coordinator& coordinator, std::uint64_t number, Deadline deadline)
      : coordinator_(coordinator), number_(number), deadline_(deadline) {}

  /// Each returns the same on every rank: the first failure of a rank, named; or the failure of the
  /// exchange on this rank.
  Status sealed(const Status& own);
  Status durable(const Status& own);
  /// Takes part in the rounds that a commit which ended with `own` has not come to. Without it the
  /// other ranks would wait for this one until the deadline.
  void finish(const Status& own);
  /// On ranks other than 0, instead of finish(): tells rank 0 that this one fails, and does not
  /// wait for an answer.
  void refuse(const Status& own);

  bool is_sealed() const noexcept { return sealed_ && sealed_->ok(); }
  bool is_durable() const noexcept { return durable_ && durable_->ok(); }
  /// `unknown` if a place may have published it and not all are known to have it, also if this rank
  /// has not heard whether all are sealed.
  SaveOutcome outcome() const noexcept;
  /// The failure of the round that failed.
  Status failure() const;

 private:
  std::string key_of(const char* round) const;
  Status agree(const char* round, const Status& own, bool& is_unsure);
  void send(const char* round, const Status& failure);

  Coordinator& coordinator_;
  const std::uint64_t number_;
  const Deadline deadline_;
  std::optional<Status> sealed_;
  bool may_be_published_ = false;
  std::optional<Status> durable_;
};

}  // namespace stoker
