#include "support/cut_sweep.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>
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

SweepReport for_each_cut(const Workload& workload, const Oracle& oracle,
                         const SweepOptions& options) {
  CutRun run(options.start);
  workload(run);
  run.disk_.watch({});
  std::vector<CutRun::Shot> shots;
  {
    const MutexLock lock(run.mutex_);
    shots.swap(run.shots_);
  }
  SweepReport report{.operation_count = shots.size()};
  std::set<std::pair<std::uint64_t, std::uint64_t>> trees;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::size_t>> checked;
  CutOptions cut = options.cut;
  for (const CutRun::Shot& shot : shots) {
    ++cut.seed;  // other random losses at each cut, the same ones in each run
    const std::vector<CutState> states = states_after_cut(shot.state, cut);
    report.state_count += states.size();
    for (const CutState& state : states) {
      if (report.violation_count >= options.violations_max) break;
      const Digest128 tree = state.disk.fingerprint();
      trees.emplace(tree.low, tree.high);
      // Marks only ever grow, so their number says which they are.
      if (!checked.emplace(tree.low, tree.high, shot.point.marks.size()).second) continue;
      ModelDisk disk(state.disk);
      const std::string wrong = oracle(disk, shot.point);
      if (wrong.empty()) continue;
      ++report.violation_count;
      if (report.violations.size() < kViolationsKept)
        report.violations.push_back(violation(shot.point, state, wrong));
    }
  }
  report.distinct_count = trees.size();
  report.checked_count = checked.size();
  return report;
}

}  // namespace stoker::testing
