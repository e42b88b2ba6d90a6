#pragma once

#include <string>

#include "observe/machine.h"

namespace stoker {

/// Machine::time_reads() of the machine this process runs on.
Result<ReadTiming> time_random_reads(const std::string& path);

}  // namespace stoker
