#pragma once

#include "bench/disk/disk_bench.h"
#include "cli/context.h"

namespace stoker::cli {

/// Shows progress on `err`: on a terminal one line that is redrawn, otherwise one line per step if
/// `verbose`, else nothing.
///
/// Thread safety: none.
class ProgressLine {
 public:
  ProgressLine(Context& context, bool verbose) : context_(context), verbose_(verbose) {}
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine() { clear(); }

  void show(const Progress& progress);
  void clear();  ///< Call before writing anything else.

 private:
  Context& context_;
  bool verbose_;
  bool is_shown_ = false;
};

}  // namespace stoker::cli
