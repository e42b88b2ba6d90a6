#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/checksum.h"
#include "base/clock.h"
#include "checkpoint/directory/owner_directory.h"

namespace stoker {

/// Removes meeting directories that are no longer in use. Ranks that use one send heartbeats in it
/// (meeting.h); a directory in which nothing has changed for the ttl, by our own clock and in
/// several looks, is removed.
///
/// Thread safety: none.
class MeetingSweep {
 public:
  /// For the holder of the writer's lock.
  MeetingSweep(OwnerDirectory owner, nanoseconds ttl) : owner_(std::move(owner)), ttl_(ttl) {}

  /// Looks once at all meeting directories. Call it at least eight times per ttl. Failures are not
  /// reported.
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
