#pragma once

#include <memory>
#include <string>

#include "checkpoint/ranks/carried_meeting.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/ranks/meeting.h"

namespace stoker::python {

/// A session of ranks: its messages, and the meeting that keeps their place: a directory, or what a
/// carrier reaches. One of the two meetings is null.
struct Session {
  std::shared_ptr<Meeting> meeting = {};
  std::shared_ptr<CarriedMeeting> carried = {};
  std::shared_ptr<Coordinator> coordinator = {};

  const std::string& token() const { return meeting ? meeting->session() : carried->session(); }
  /// Names the two jobs, if a rank has left the session because of them; otherwise empty.
  std::string conflict() const { return meeting ? meeting->conflict() : std::string(); }
};

}  // namespace stoker::python
