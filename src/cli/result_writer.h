/// \file
/// Results on stdout, to a reader that may go away.
#pragma once

#include <string>
#include <string_view>

#include "cli/context.h"
#include "stoker/status.h"

namespace stoker::cli {

/// Writes to stdout and flushes. If the reader has gone away (| head), the process ends as one that
/// SIGPIPE ended, which is what shells expect and say nothing about. Other failures are returned.
Status write_out(Context& context, std::string_view text);

/// Collects results and writes them in large pieces.
///
/// Thread safety: none.
class ResultWriter {
 public:
  explicit ResultWriter(Context& context) : context_(context) {}
  /// Adds a line. `cancelled` once the user asked to stop.
  Status line(std::string_view text);
  /// After a failure it fails again, for the same reason.
  Status flush();

 private:
  Context& context_;
  std::string pending_;
  Status failure_;
};

}  // namespace stoker::cli
