#pragma once

#include <string>
#include <vector>

#include "bench/disk/disk_report.h"

namespace stoker {

/// What the figures come to, in lines of less than 80 columns: how fast it reads, how fast it
/// writes, and what small files cost. A line is left out if nothing of it was measured. Pure.
std::vector<std::string> disk_verdict(const DiskReport& report);

}  // namespace stoker
