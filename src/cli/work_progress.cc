#include "cli/work_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "stoker/units.h"

namespace stoker::cli {

std::string render_progress(const std::string& verb, const std::string& unit,
                            const WorkProgress::State& state, std::chrono::nanoseconds elapsed) {
  const double share =
      state.count == 0 ? 0 : static_cast<double>(state.done) / static_cast<double>(state.count);
  std::string line = state.count == 0
                         ? fmt::format("{}: {} {}", verb, format_count(state.done), unit)
                         : fmt::format("{}: {:.0f} %, {}/{} {}", verb, 100 * share,
                                       format_count(state.done), format_count(state.count), unit);
  line += ", " + format_rate(bytes_per_second(state.bytes, elapsed));
  if (!state.note.empty()) line += ", " + state.note;
  const std::uint64_t done_now = state.done - std::min(state.done, state.done_before);
  if (done_now == 0 || state.done >= state.count) return line;
  const double seconds = std::chrono::duration<double>(elapsed).count() /
                         static_cast<double>(done_now) *
                         static_cast<double>(state.count - state.done);
  return line + fmt::format(", {:.0f} s left", seconds);
}

std::string counted(std::uint64_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

WorkProgress::WorkProgress(Context& context, std::string verb, std::string unit)
    : context_(context),
      verb_(std::move(verb)),
      unit_(std::move(unit)),
      began_(std::chrono::steady_clock::now()) {}

void WorkProgress::show(const State& state) {
  if (!context_.err_is_terminal) return;
  const auto elapsed = std::chrono::steady_clock::now() - began_;
  context_.err << '\r' << render_progress(verb_, unit_, state, elapsed) << "\x1b[K" << std::flush;
  is_shown_ = true;
}

void WorkProgress::clear() {
  if (is_shown_) context_.err << "\r\x1b[K" << std::flush;
  is_shown_ = false;
}

}  // namespace stoker::cli
