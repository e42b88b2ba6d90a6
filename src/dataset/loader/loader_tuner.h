#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stoker::internal {

/// Finds how many threads and how much depth a run needs, from what its caller waits: a step up is
/// kept if the wait falls by a tenth, and taken back if not. What has paid is tried again at once,
/// and twice as many threads each time: with many cores a run does not spend its first epoch at
/// learning that. One step down now and then when there is nothing to wait for. It changes how fast
/// batches come, never what is in them.
///
/// Pure: it is told what was seen and answers what to try. Thread safety: none.
class LoaderTuner {
 public:
  struct Setting {
    std::size_t threads = 1;
    std::size_t depth = 1;
    bool operator==(const Setting&) const = default;
  };
  struct Options {
    std::size_t threads = 0;  ///< Fixed by hand if not 0.
    std::size_t depth = 0;    ///< Likewise.
    std::size_t threads_max = 1;
    std::size_t depth_max = 1;
  };
  /// Batches that a setting is judged by.
  static constexpr std::uint64_t kWindowBatches = 16;

  explicit LoaderTuner(const Options& options);

  Setting setting() const noexcept { return setting_; }

  /// A batch was handed over after `waited`, `elapsed` after the one before. True if setting() is
  /// another now.
  bool saw(nanoseconds waited, nanoseconds elapsed);

 private:
  enum class Trial : std::uint8_t { none, more_threads, more_depth, less };

  bool judge(double wait_ns, double share);
  bool begin_trial(double wait_ns, double share);
  bool grow();
  bool shrink();

  const Options options_;
  Setting setting_;
  Setting before_;  // what a trial that does not pay goes back to
  Trial trial_ = Trial::none;
  double wait_before_ns_ = 0;
  bool depth_next_ = false;         // which of the two to raise next: the other has not paid
  std::size_t stride_;              // threads to add in the next trial
  std::uint64_t rest_windows_ = 0;  // before the next trial
  std::uint64_t next_rest_ = 2;     // doubled with every trial that fails
  std::uint64_t batches_ = 0;
  nanoseconds waited_{0};
  nanoseconds elapsed_{0};
};

}  // namespace stoker::internal
