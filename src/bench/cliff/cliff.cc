#include "bench/cliff/cliff.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace stoker {
namespace {

/// Sums over a run of windows, from which the mean and the squared deviations are computed.
struct Sums {
  double count = 0;
  double sum = 0;
  double squares = 0;

  void add(double rate) {
    count += 1;
    sum += rate;
    squares += rate * rate;
  }
  double mean() const { return count > 0 ? sum / count : 0; }
  double deviation() const { return count > 0 ? std::max(squares - sum * sum / count, 0.0) : 0; }
};

Sums operator-(const Sums& all, const Sums& part) {
  return {all.count - part.count, all.sum - part.sum, all.squares - part.squares};
}

/// Returns the squared deviations from the best straight line through the rates.
double deviation_from_line(std::span<const double> rates, const Sums& all) {
  const double middle = (all.count - 1) / 2;
  double together = 0;
  double positions = 0;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double position = static_cast<double>(i) - middle;
    together += position * (rates[i] - all.mean());
    positions += position * position;
  }
  return positions > 0 ? std::max(all.deviation() - together * together / positions, 0.0) : 0;
}

/// The median, because a few outliers, or a drop that has just started, hardly change it.
double median_of(std::span<const double> rates) {
  std::vector<double> sorted(rates.begin(), rates.end());
  const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
  std::nth_element(sorted.begin(), middle, sorted.end());
  return *middle;
}

double rate_of(std::span<const RateWindow> windows) {
  RateWindow total;
  for (const RateWindow& window : windows) {
    total.bytes += window.bytes;
    total.elapsed += window.elapsed;
  }
  return total.bytes_per_s();
}

}  // namespace

std::optional<Cliff> find_cliff(std::span<const RateWindow> windows, const CliffRule& rule) {
  const std::size_t side = std::max<std::size_t>(rule.windows_min, 1);
  if (windows.size() < 2 * side) return std::nullopt;
  std::vector<double> rates;
  rates.reserve(windows.size());
  Sums all;
  for (const RateWindow& window : windows) {
    rates.push_back(window.bytes_per_s());
    all.add(rates.back());
  }

  std::size_t best = 0;
  double least = all.deviation();
  Sums best_before;
  Sums before;
  for (std::size_t split = 1; split + side <= windows.size(); ++split) {
    before.add(rates[split - 1]);
    if (split < side) continue;
    const double left = before.deviation() + (all - before).deviation();
    if (left >= least) continue;
    least = left;
    best = split;
    best_before = before;
  }
  if (best == 0) return std::nullopt;

  const Sums after = all - best_before;
  const double difference = best_before.mean() - after.mean();
  const double variance = least / std::max(all.count - 2, 1.0);
  const double error = std::sqrt(variance * (1 / best_before.count + 1 / after.count));
  if (difference <= rule.significance * error) return std::nullopt;
  if (deviation_from_line(rates, all) <= least) return std::nullopt;
  const double usual_before = median_of(std::span(rates).first(best));
  const double usual_after = median_of(std::span(rates).subspan(best));
  if (usual_after > usual_before * (1 - rule.drop_min)) return std::nullopt;

  Cliff cliff{.window = best,
              .bytes_per_s_before = rate_of(windows.first(best)),
              .bytes_per_s_after = rate_of(windows.subspan(best))};
  for (const RateWindow& window : windows.first(best)) cliff.bytes_before += window.bytes;
  if (cliff.drop() < rule.drop_min) return std::nullopt;
  return cliff;
}

}  // namespace stoker
