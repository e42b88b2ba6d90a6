#pragma once

#include <memory>

#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/ranks/meeting.h"

namespace stoker::python {

/// A session of ranks: its messages, and the meeting that keeps their directory.
struct Session {
  std::shared_ptr<Meeting> meeting;
  std::shared_ptr<Coordinator> coordinator;
};

}  // namespace stoker::python
