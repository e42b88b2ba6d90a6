#pragma once

#include <cstddef>
#include <cstdint>

#include "base/clock.h"

namespace stoker::internal {

/// Finds how many threads and how much depth a run needs, from how long its caller waits. A step up
/// is kept if the wait falls by a tenth, and undone otherwise. After a successful step the next
/// follows at once, doubling the threads each time, so that a run on many cores does not spend its
/// first epoch tuning. If the caller hardly waits, the tuner tries one step down now and then. It
/// changes how fast batches are made, never their contents.
///
/// Does not read clocks or counters: measurements are arguments. Thread safety: none.
class LoaderTuner {
 public:
  struct Setting {
    std::size_t threads = 1;
    std::size_t depth = 1;
    bool operator==(const Setting&) const = default;
  };
  struct Options {
    std::size_t threads = 0;  ///< Fixed if not 0.
    std::size_t depth = 0;    ///< Likewise.
    std::size_t threads_max = 1;
    std::size_t depth_max = 1;
  };
  /// Number of batches over which a setting is measured.
  static constexpr std::uint64_t kWindowBatches = 16;

  explicit LoaderTuner(const Options& options);

  Setting setting() const noexcept { return setting_; }

  /// A batch was handed over after a wait of `waited`, and `elapsed` after the previous batch.
  /// Returns true if setting() changed.
  bool saw(nanoseconds waited, nanoseconds elapsed);

 private:
  enum class Trial : std::uint8_t { none, more_threads, more_depth, less };

  bool judge(double wait_ns, double share);
  bool begin_trial(double wait_ns, double share);
  bool grow();
  bool shrink();

  const Options options_;
  Setting setting_;
  Setting before_;  // restored if a trial does not help
  Trial trial_ = Trial::none;
  double wait_before_ns_ = 0;
  bool depth_next_ = false;         // raise the depth next: more threads did not help
  std::size_t stride_;              // threads to add in the next trial
  std::uint64_t rest_windows_ = 0;  // before the next trial
  std::uint64_t next_rest_ = 2;     // doubled with every trial that fails
  std::uint64_t batches_ = 0;
  nanoseconds waited_{0};
  nanoseconds elapsed_{0};
};

}  // namespace stoker::internal
