#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/ranks/meeting.h"
#include "stoker/checkpoint.h"
#include "stoker/status.h"

namespace stoker::internal {

/// The messages of ranks that have met, and the meeting that keeps their place.
struct RankSession {
  std::unique_ptr<Meeting> meeting;
  std::unique_ptr<Coordinator> coordinator;
};

/// Lets the ranks of a job meet, each time they have to agree.
///
/// Thread safety: none.
class RankSessions {
 public:
  /// The options are borrowed.
  explicit RankSessions(const CheckpointerOptions& options) : options_(options) {}

  /// `invalid_argument` if it is unknown which processes belong together.
  Status check() const;
  /// Returns a session of all ranks; the purpose, "save" or "restore", must be the same on each.
  /// One rank alone needs no meeting. `unavailable` names the missing ranks; `already_exists` names
  /// two jobs.
  Result<std::shared_ptr<RankSession>> meet(const std::string& purpose, Deadline deadline,
                                            const WaitSink& on_wait);
  /// Keeps a session as long as this object: ranks that did not receive its end still need it.
  void keep(std::shared_ptr<RankSession> session) { kept_.push_back(std::move(session)); }

 private:
  const CheckpointerOptions& options_;
  std::map<std::string, std::vector<std::string>> attempts_;  // that have failed, by word
  std::vector<std::shared_ptr<RankSession>> kept_;
};

}  // namespace stoker::internal
