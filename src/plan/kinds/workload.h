/// \file
/// Workload files: the fields of a plan in tables.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "plan/kind.h"
#include "plan/kinds/catalogue.h"

namespace stoker::plan {

/// Returns the settings of the file, and those that its devices give to fields that it does not
/// set. `invalid_argument` names the line: a key that is no field of `kind`, an unknown device, a
/// value that is not of its unit.
Result<std::vector<Setting>> parse_workload(std::string_view text, const Kind& kind,
                                            std::span<const Device> devices);

}  // namespace stoker::plan
