#include "support/cut_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <span>
#include <thread>
#include <utility>

namespace stoker::testing {
namespace {

constexpr std::size_t kViolationsKept = 8;

std::string violation(const CutPoint& point, const CutState& state, const std::string& wrong) {
  std::string text =
      "cut after operation " + std::to_string(point.number) + ", " + point.operation + " [";
  for (const std::string& mark : point.marks)
    text += mark + (&mark == &point.marks.back() ? "" : ", ");
  return text + "], lost: " + state.lost + ": " + wrong;
}

}  // namespace

bool CutPoint::has(const std::string& mark) const {
  return std::ranges::find(marks, mark) != marks.end();
}

std::size_t CutPoint::count(const std::string& prefix) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      marks, [&](const std::string& mark) { return mark.starts_with(prefix); }));
}

std::string SweepReport::text() const {
  std::string text = std::to_string(operation_count) + " operations, " +
                     std::to_string(state_count) + " states, " + std::to_string(distinct_count) +
                     " distinct, " + std::to_string(violation_count) + " violations";
  for (const std::string& line : violations) text += "\n  " + line;
  return text;
}

void SweepReport::record(const std::string& prefix) const {
  ::testing::Test::RecordProperty(prefix + "operations", std::to_string(operation_count));
  ::testing::Test::RecordProperty(prefix + "states", std::to_string(state_count));
  ::testing::Test::RecordProperty(prefix + "distinct", std::to_string(distinct_count));
  ::testing::Test::RecordProperty(prefix + "checked", std::to_string(checked_count));
  ::testing::Test::RecordProperty(prefix + "violations", std::to_string(violation_count));
}

CutRun::CutRun(const ModelState& start) : disk_(start) {
  disk_.watch(
      [this](const ModelState& state, const std::string& operation) { take(state, operation); });
}

void CutRun::take(const ModelState& state, const std::string& operation) {
  const MutexLock lock(mutex_);
  CutPoint point{.number = shots_.size(), .operation = operation, .marks = marks_};
  shots_.push_back({state, std::move(point)});
}

void CutRun::note(std::string mark) {
  {
    const MutexLock lock(mutex_);
    marks_.push_back(mark);
  }
  disk_.reached("note " + mark);
}

std::vector<CutRun::Shot> CutRun::take_shots() {
  disk_.watch({});
  const MutexLock lock(mutex_);
  return std::exchange(shots_, {});
}

bool SeenStates::add(const Digest128& tree, const Digest128& promises, bool& is_new_tree) {
  const Key key{tree.low, tree.high};
  const MutexLock lock(mutex_);
  is_new_tree = trees_.insert(key).second;
  return checked_.insert({key, {promises.low, promises.high}}).second;
}

std::size_t SeenStates::tree_count() const {
  const MutexLock lock(mutex_);
  return trees_.size();
}

std::size_t SeenStates::checked_count() const {
  const MutexLock lock(mutex_);
  return checked_.size();
}

/// Threads that share the shots of one run.
class Sweep {
 public:
  Sweep(const std::vector<CutRun::Shot>& shots, const Oracle& oracle, const SweepOptions& options)
      : shots_(shots),
        oracle_(oracle),
        options_(options),
        seen_(options.seen == nullptr ? own_seen_ : *options.seen) {}

  SweepReport run() {
    std::size_t count = options_.thread_count;
    if (count == 0) count = std::clamp(std::thread::hardware_concurrency(), 1U, 4U);
    {
      std::vector<std::jthread> others;
      for (std::size_t i = 1; i < count; ++i) others.emplace_back([this] { work(); });
      work();
    }
    const MutexLock lock(mutex_);
    report_.operation_count = shots_.size();
    return report_;
  }

 private:
  void work() {
    for (;;) {
      const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
      if (index >= shots_.size()) return;
      CutOptions cut = options_.cut;
      cut.seed += index + 1;  // other random losses at each cut, the same ones in each run
      look_at(shots_[index], states_after_cut(shots_[index].state, cut));
    }
  }

  void look_at(const CutRun::Shot& shot, const std::vector<CutState>& states) {
    std::string marks;
    for (const std::string& mark : shot.point.marks) marks += mark + "\n";
    const Digest128 promises = xxh3_128(std::as_bytes(std::span(marks)));
    SweepReport part{.state_count = states.size()};
    for (const CutState& state : states) {
      if (is_over()) break;
      bool is_new_tree = false;
      if (!seen_.add(state.tree, promises, is_new_tree)) continue;
      part.distinct_count += is_new_tree ? 1 : 0;
      ++part.checked_count;
      ModelDisk disk(state.disk);
      const std::string wrong = oracle_(disk, shot.point);
      if (!wrong.empty()) add_violation(violation(shot.point, state, wrong));
    }
    const MutexLock lock(mutex_);
    report_.state_count += part.state_count;
    report_.distinct_count += part.distinct_count;
    report_.checked_count += part.checked_count;
  }

  bool is_over() {
    const MutexLock lock(mutex_);
    return report_.violation_count >= options_.violations_max;
  }
  void add_violation(std::string text) {
    const MutexLock lock(mutex_);
    ++report_.violation_count;
    if (report_.violations.size() < kViolationsKept) report_.violations.push_back(std::move(text));
  }

  const std::vector<CutRun::Shot>& shots_;
  const Oracle& oracle_;
  const SweepOptions& options_;
  SeenStates own_seen_;
  SeenStates& seen_;
  std::atomic<std::size_t> next_{0};  // relaxed: only uniqueness matters
  Mutex mutex_;
  SweepReport report_ STOKER_GUARDED_BY(mutex_);
};

SweepReport for_each_cut(const Workload& workload, const Oracle& oracle,
                         const SweepOptions& options) {
  CutRun run(options.start);
  workload(run);
  const std::vector<CutRun::Shot> shots = run.take_shots();
  return Sweep(shots, oracle, options).run();
}

}  // namespace stoker::testing
