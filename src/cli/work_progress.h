#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "cli/context.h"

namespace stoker::cli {

/// How far a long piece of work is: one line on `err` that is written over and over, with rate and
/// time left. Nothing where `err` is no terminal. Erases itself.
///
/// Thread safety: one call at a time, from any thread.
class WorkProgress {
 public:
  struct State {
    std::uint64_t done = 0;
    std::uint64_t count = 0;        ///< 0: nobody knows, or without end.
    std::uint64_t done_before = 0;  ///< Of `done`, what was there at the start.
    std::uint64_t bytes = 0;        ///< Moved since the start.
    std::string note = {};          ///< What else there is to say, after the rate.
  };

  /// "packing", "samples": "packing: 45 %, 450/1.0k samples, 120 MB/s, 12 s left".
  WorkProgress(Context& context, std::string verb, std::string unit);
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;
  ~WorkProgress() { clear(); }

  void show(const State& state);
  void clear();  ///< Before anything else is written.

 private:
  Context& context_;
  std::string verb_;
  std::string unit_;
  std::chrono::steady_clock::time_point began_;
  bool is_shown_ = false;
};

/// The line itself, for `state` after `elapsed`.
std::string render_progress(const std::string& verb, const std::string& unit,
                            const WorkProgress::State& state, std::chrono::nanoseconds elapsed);

/// "1 shard", "2 shards".
std::string counted(std::uint64_t count, const std::string& noun);

}  // namespace stoker::cli
