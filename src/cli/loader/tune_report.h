#pragma once

#include <string>

#include "cli/loader/tune_search.h"

namespace stoker::cli {

/// Returns a table, the verdict, and the recommended setting for the command line and for Python.
std::string render_tune_text(const LoaderArguments& arguments, const PlannedRun& plan,
                             const TuneReport& report);
/// Returns one object on one line.
std::string render_tune_json(const LoaderArguments& arguments, const PlannedRun& plan,
                             const TuneReport& report);

}  // namespace stoker::cli
