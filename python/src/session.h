#pragma once

#include <memory>

#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/ranks/meeting.h"

namespace stoker::python {

/// Ranks that have met: their messages, and what keeps the place where they lie.
struct Session {
  std::shared_ptr<Meeting> meeting;
  std::shared_ptr<Coordinator> coordinator;
};

}  // namespace stoker::python
