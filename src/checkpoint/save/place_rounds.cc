#include "checkpoint/save/place_rounds.h"

#include <vector>

#include "checkpoint/save/save_messages.h"

namespace stoker {

Status PlaceRounds::agree(const char* round, const Status& own) {
  const std::string key = std::string(round) + "-" + std::to_string(number_);
  const Result<std::vector<std::string>> texts =
      coordinator_.gather(key, format_message(EndMessage{.failure = own}), deadline_);
  Status failure = texts.status();
  if (coordinator_.rank() != 0) {
    STOKER_TRY(failure);
    STOKER_ASSIGN(const std::string told, coordinator_.broadcast(key, "", deadline_));
    STOKER_ASSIGN(const EndMessage said, parse_end_message(told));
    return said.failure;
  }
  for (std::size_t rank = 0; texts.ok() && failure.ok() && rank < texts->size(); ++rank) {
    const Result<EndMessage> said = parse_end_message((*texts)[rank]);
    failure = said.ok() ? said->failure : said.status();
    failure = failure.with_context("rank " + std::to_string(rank));
  }
  STOKER_TRY(coordinator_.broadcast(key, format_message(EndMessage{.failure = failure}), deadline_)
                 .status());
  return failure;
}

Status PlaceRounds::sealed(const Status& own) {
  sealed_ = agree("sealed", own);
  return *sealed_;
}

Status PlaceRounds::durable(const Status& own) {
  durable_ = agree("durable", own);
  return *durable_;
}

void PlaceRounds::finish(const Status& own) {
  if (!sealed_) static_cast<void>(sealed(own));
  if (is_sealed() && !durable_) static_cast<void>(durable(own));
}

Status PlaceRounds::failure() const {
  if (durable_)
    return durable_->with_context("it may be on some nodes only, and is then not restored");
  return sealed_.value_or(Status());
}

}  // namespace stoker
