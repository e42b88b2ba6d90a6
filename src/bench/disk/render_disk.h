/// \file
/// Renders a DiskReport as text. Uses no I/O and no clock.
#pragma once

#include <cstddef>
#include <string>

#include "bench/disk/disk_report.h"

namespace stoker {

/// Renders for people: a table with bars, one block of lines for each kind of case, then the
/// verdict. Ends with a newline. If `columns` is not 0 and too narrow for that, the table has no
/// bars, and its lines have at most 80 columns.
std::string render_disk_table(const DiskReport& report, std::size_t columns = 0);

/// Renders one JSON object. Ends with a newline. docs/benchmarks.md lists the keys.
std::string render_disk_json(const DiskReport& report);

}  // namespace stoker
