/// \file
/// Writes results to stdout, whose reader may exit early.
#pragma once

#include <string>
#include <string_view>

#include "cli/context.h"
#include "stoker/status.h"

namespace stoker::cli {

/// Writes to stdout and flushes. If the reader has exited (| head), raises SIGPIPE with its default
/// action, as shells expect. Returns other failures.
Status write_out(Context& context, std::string_view text);

/// Buffers results and writes them in large pieces.
///
/// Thread safety: none.
class ResultWriter {
 public:
  explicit ResultWriter(Context& context) : context_(context) {}
  /// Adds a line. `cancelled` after the user has interrupted.
  Status line(std::string_view text);
  /// After a failure, returns the same failure again.
  Status flush();

 private:
  Context& context_;
  std::string pending_;
  Status failure_;
};

}  // namespace stoker::cli
