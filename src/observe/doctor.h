#pragma once

#include <stop_token>
#include <string>
#include <vector>

#include "observe/finding.h"
#include "observe/machine.h"
#include "observe/target.h"

namespace stoker {

struct DoctorOptions {
  std::vector<std::string> paths{"."};
  Role role = Role::both;
  std::stop_token stop;
};

/// Examines the machine once and each path in turn; changes nothing. `not_found` or `denied` for a
/// path that cannot be examined, `cancelled` if a stop is requested; it is checked between checks.
Result<Findings> examine(Machine& machine, const DoctorOptions& options);

}  // namespace stoker
