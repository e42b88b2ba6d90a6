/// \file
/// Rates of this machine's storage, measured, in place of those of a catalogue.
#pragma once

#include <string>
#include <vector>

#include "cli/context.h"
#include "stoker/plan.h"
#include "stoker/status.h"

namespace stoker::cli {

/// Measures the storage under `directory` as `stoker bench disk --quick --policy automatic` does,
/// past the page cache where that is possible, and returns
/// read_rate, write_rate and read_iops with "measured in DIR" as their origin. Takes some seconds;
/// the files are removed.
Result<std::vector<plan::Setting>> measure_storage(const std::string& directory, Context& context);

}  // namespace stoker::cli
