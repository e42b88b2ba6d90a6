/// \file
/// A DiskReport as text. Pure: no I/O, no clock.
#pragma once

#include <cstddef>
#include <string>

#include "bench/disk/disk_report.h"

namespace stoker {

/// For people: a table with bars, one block of lines for each kind of case, then the verdict;
/// newline at the end. If `columns` is not 0 and too narrow for that, the table does without bars,
/// and its lines have at most 80 columns.
std::string render_disk_table(const DiskReport& report, std::size_t columns = 0);

/// For programs: one JSON object, newline at the end. docs/benchmarks.md lists the keys.
std::string render_disk_json(const DiskReport& report);

}  // namespace stoker
