#include "checkpoint/save/place_rounds.h"

#include <vector>

#include "checkpoint/save/save_messages.h"

namespace stoker {

std::string PlaceRounds::key_of(const char* round) const {
  return std::string(round) + "-" + std::to_string(number_);
}

void PlaceRounds::send(const char* round, const Status& failure) {
  static_cast<void>(coordinator_.gather(key_of(round),
                                        format_message(EndMessage{.failure = failure}), deadline_));
}

/// `is_unsure`: whether the others may have agreed, although this returns a failure.
Status PlaceRounds::agree(const char* round, const Status& own, bool& is_unsure) {
  const std::string key = key_of(round);
  const Result<std::vector<std::string>> texts =
      coordinator_.gather(key, format_message(EndMessage{.failure = own}), deadline_);
  Status failure = texts.status();
  if (coordinator_.rank() != 0) {
    is_unsure = own.ok();
    STOKER_TRY(failure);
    STOKER_ASSIGN(const std::string told, coordinator_.broadcast(key, "", deadline_));
    STOKER_ASSIGN(const EndMessage said, parse_end_message(told));
    is_unsure = false;
    return said.failure;
  }
  for (std::size_t rank = 0; texts.ok() && failure.ok() && rank < texts->size(); ++rank) {
    const Result<EndMessage> said = parse_end_message((*texts)[rank]);
    failure = said.ok() ? said->failure : said.status();
    failure = failure.with_context("rank " + std::to_string(rank));
  }
  const Status told =
      coordinator_.broadcast(key, format_message(EndMessage{.failure = failure}), deadline_)
          .status();
  is_unsure = failure.ok() && !told.ok();
  return failure.ok() ? told : failure;
}

Status PlaceRounds::sealed(const Status& own) {
  sealed_ = agree("sealed", own, may_be_published_);
  if (sealed_->ok()) may_be_published_ = true;
  return *sealed_;
}

Status PlaceRounds::durable(const Status& own) {
  bool is_unsure = false;  // it is unknown either way
  durable_ = agree("durable", own, is_unsure);
  return *durable_;
}

void PlaceRounds::finish(const Status& own) {
  if (!sealed_) static_cast<void>(sealed(own));
  if (durable_ || !may_be_published_) return;
  if (is_sealed() || coordinator_.rank() == 0) {
    static_cast<void>(durable(is_sealed() ? own : *sealed_));
    return;
  }
  send("durable", *sealed_);
  durable_ = sealed_;
}

void PlaceRounds::refuse(const Status& own) {
  send("sealed", own);
  sealed_ = own;
}

SaveOutcome PlaceRounds::outcome() const noexcept {
  if (is_durable()) return SaveOutcome::committed;
  return may_be_published_ ? SaveOutcome::unknown : SaveOutcome::failed;
}

Status PlaceRounds::failure() const {
  if (durable_)
    return durable_->with_context("it may be on some nodes only, and is then not restored");
  return sealed_.value_or(Status());
}

}  // namespace stoker
