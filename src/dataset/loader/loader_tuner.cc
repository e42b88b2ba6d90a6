#include "dataset/loader/loader_tuner.h"

#include <algorithm>
#include <utility>

namespace stoker::internal {
namespace {

/// If the caller waits for less than this share of its time, no step up is tried.
constexpr double kCalmShare = 0.01;
/// A step up is kept if it saves at least this share of the wait.
constexpr double kGain = 0.10;
/// Failed trials become rarer but never stop: conditions change in a run of days.
constexpr std::uint64_t kRestMax = 256;

std::size_t first_threads(std::size_t threads_max) {
  return std::min(std::max<std::size_t>(2, threads_max / 4), threads_max);
}

}  // namespace

LoaderTuner::LoaderTuner(const Options& options)
    : options_(options),
      setting_{options.threads != 0 ? options.threads : first_threads(options.threads_max),
               options.depth},
      stride_(setting_.threads) {
  if (setting_.depth == 0) setting_.depth = std::min(setting_.threads + 2, options.depth_max);
  before_ = setting_;
}

bool LoaderTuner::saw(nanoseconds waited, nanoseconds elapsed) {
  waited_ += waited;
  elapsed_ += elapsed;
  if (++batches_ < kWindowBatches) return false;
  const double wait_ns = static_cast<double>(waited_.count()) / static_cast<double>(batches_);
  const double share = elapsed_.count() > 0 ? static_cast<double>(waited_.count()) /
                                                  static_cast<double>(elapsed_.count())
                                            : 0;
  batches_ = 0;
  waited_ = elapsed_ = nanoseconds(0);
  return judge(wait_ns, share);
}

bool LoaderTuner::judge(double wait_ns, double share) {
  if (trial_ == Trial::none) return begin_trial(wait_ns, share);
  const bool pays =
      trial_ == Trial::less ? share < kCalmShare : wait_ns < wait_before_ns_ * (1 - kGain);
  const Trial tried = std::exchange(trial_, Trial::none);
  if (pays) {
    next_rest_ = 2;
    if (tried == Trial::more_threads) stride_ = setting_.threads;
    return begin_trial(wait_ns, share);
  }
  if (tried == Trial::more_threads) stride_ = std::max<std::size_t>(1, stride_ / 2);
  if (tried != Trial::less) depth_next_ = tried == Trial::more_threads;
  rest_windows_ = next_rest_;
  next_rest_ = std::min(2 * next_rest_, kRestMax);
  setting_ = before_;
  return true;
}

bool LoaderTuner::begin_trial(double wait_ns, double share) {
  if (rest_windows_ > 0) {
    --rest_windows_;
    return false;
  }
  before_ = setting_;
  wait_before_ns_ = wait_ns;
  if (share >= kCalmShare ? grow() : shrink()) return true;
  rest_windows_ = next_rest_;
  return false;
}

bool LoaderTuner::grow() {
  const bool may_threads = options_.threads == 0 && setting_.threads < options_.threads_max;
  const bool may_depth = options_.depth == 0 && setting_.depth < options_.depth_max;
  if (!may_threads && !may_depth) return false;
  if (may_depth && (depth_next_ || !may_threads)) {
    trial_ = Trial::more_depth;
    setting_.depth = std::min(2 * setting_.depth, options_.depth_max);
    return true;
  }
  trial_ = Trial::more_threads;
  setting_.threads = std::min(setting_.threads + stride_, options_.threads_max);
  if (options_.depth == 0)
    setting_.depth = std::min(std::max(setting_.depth, setting_.threads + 2), options_.depth_max);
  return true;
}

bool LoaderTuner::shrink() {
  if (options_.threads != 0 || setting_.threads <= 1) return false;
  trial_ = Trial::less;
  --setting_.threads;
  return true;
}

}  // namespace stoker::internal
