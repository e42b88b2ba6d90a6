#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/context.h"

namespace stoker::cli {

/// Shows the progress of long work: one line on `err` that is redrawn, with rate and time left.
/// Shows nothing if `err` is not a terminal. The destructor erases the line.
///
/// Thread safety: one call at a time, from any thread.
class WorkProgress {
 public:
  struct State {
    std::uint64_t done = 0;
    std::uint64_t count = 0;        ///< 0: unknown, or no end.
    std::uint64_t done_before = 0;  ///< Part of `done` that existed at the start.
    std::uint64_t bytes = 0;        ///< Bytes moved since the start.
    std::string note = {};          ///< Text after the rate.
  };

  /// "packing", "samples": "packing: 45 %, 450/1.0k samples, 120 MB/s, 12 s left".
  WorkProgress(Context& context, std::string verb, std::string unit);
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;
  ~WorkProgress() { clear(); }

  void show(const State& state);
  void clear();  ///< Call before writing anything else.

 private:
  Context& context_;
  std::string verb_;
  std::string unit_;
  std::chrono::steady_clock::time_point began_;
  bool is_shown_ = false;
};

/// Returns the line for `state` after `elapsed`.
std::string render_progress(const std::string& verb, const std::string& unit,
                            const WorkProgress::State& state, std::chrono::nanoseconds elapsed);

/// "1 shard", "2 shards".
std::string counted(std::uint64_t count, const std::string& noun);

}  // namespace stoker::cli
