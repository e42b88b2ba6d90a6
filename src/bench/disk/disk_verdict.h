#pragma once

#include <string>
#include <vector>

#include "bench/disk/disk_report.h"

namespace stoker {

/// Returns a summary in lines of less than 80 columns: the speed of reads, of writes and of small
/// files. A line is omitted if none of its cases was measured.
std::vector<std::string> disk_verdict(const DiskReport& report);

}  // namespace stoker
