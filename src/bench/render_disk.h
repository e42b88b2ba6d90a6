/// \file
/// A DiskReport as text. Pure: no I/O, no clock.
#pragma once

#include <string>

#include "bench/disk_report.h"

namespace stoker {

/// For people: a table with bars, one block of lines for each kind of case, newline at the end.
std::string render_disk_table(const DiskReport& report);

/// For programs: one JSON object, newline at the end. docs/benchmarks.md lists the keys.
std::string render_disk_json(const DiskReport& report);

}  // namespace stoker
