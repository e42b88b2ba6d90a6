#include "bench/paired_trials.h"

#include <algorithm>
#include <vector>

namespace stoker {

double median_of(std::span<const double> values) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const std::size_t middle = sorted.size() / 2;
  return sorted.size() % 2 == 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

PairedVerdict compare_pairs(std::span<const double> base, std::span<const double> challenger) {
  PairedVerdict verdict;
  std::vector<double> gains;
  for (std::size_t i = 0; i < std::min(base.size(), challenger.size()); ++i) {
    if (!(base[i] > 0)) continue;  // the base measured nothing
    gains.push_back(challenger[i] / base[i] - 1);
    if (gains.back() > 0) ++verdict.wins;
  }
  verdict.pairs = gains.size();
  verdict.gain = median_of(gains);
  const std::size_t losses = verdict.pairs - verdict.wins;
  const std::size_t losses_allowed = verdict.pairs >= kPairsEnough ? 1 : 0;
  verdict.is_clear =
      verdict.pairs >= kPairsMin && losses <= losses_allowed && verdict.gain >= kGainMin;
  return verdict;
}

}  // namespace stoker
