#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/checksum.h"
#include "base/clock.h"
#include "checkpoint/directory/owner_directory.h"

namespace stoker {

/// Removes the directories in which ranks have met and that nobody uses any more. Those who do give
/// signs of life in it (meeting.h); one in which nothing has changed for the ttl, by our own clock
/// and in several looks, is left over.
///
/// Thread safety: none.
class MeetingSweep {
 public:
  /// For the holder of the writer's lock.
  MeetingSweep(OwnerDirectory owner, nanoseconds ttl) : owner_(std::move(owner)), ttl_(ttl) {}

  /// To be called again and again, at least eight times in the ttl. Failures are not told.
  void look(Deadline now = Clock::now());

 private:
  struct Seen {
    Digest128 contents = {};
    Deadline since = {};
    int looks = 0;
  };

  OwnerDirectory owner_;
  nanoseconds ttl_;
  std::map<std::string, Seen> seen_;
};

}  // namespace stoker
