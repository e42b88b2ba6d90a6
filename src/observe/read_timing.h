#pragma once

#include <string>

#include "observe/machine.h"

namespace stoker {

/// Implements Machine::time_reads() for the machine that this process runs on.
Result<ReadTiming> time_random_reads(const std::string& path);

}  // namespace stoker
