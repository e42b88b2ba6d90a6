#include "cli/progress_line.h"

#include <fmt/format.h>

#include <ostream>

#include "bench/disk/bar.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kBarWidth = 20;

}  // namespace

void ProgressLine::show(const Progress& progress) {
  if (context_.err_is_terminal) {
    const double share =
        static_cast<double>(progress.step) / static_cast<double>(progress.step_count);
    // Carriage return, text, "erase to the end of the line" (ECMA-48).
    context_.err << fmt::format("\r{} {}/{} {}\x1b[K", format_bar(share, kBarWidth),
                                progress.step + 1, progress.step_count, progress.what)
                 << std::flush;
    is_shown_ = true;
  } else if (verbose_) {
    context_.err << fmt::format("[{}/{}] {}\n", progress.step + 1, progress.step_count,
                                progress.what)
                 << std::flush;
  }
}

void ProgressLine::clear() {
  if (is_shown_) context_.err << "\r\x1b[K" << std::flush;
  is_shown_ = false;
}

}  // namespace stoker::cli
