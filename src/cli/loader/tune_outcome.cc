#include "cli/loader/tune_outcome.h"

#include <algorithm>

namespace stoker::cli {
namespace {

constexpr double kHardlyCached = 0.1;

}  // namespace

double most_from_page_cache(const TuneReport& report) noexcept {
  double most = 0;
  for (const TuneRow& row : report.rows) most = std::max(most, row.page_cache_share);
  return most;
}

bool is_warm_after_all(const TuneReport& report) noexcept {
  return report.is_cold && most_from_page_cache(report) > kHardlyCached;
}

TuneSetting recommend(const TuneReport& report) noexcept {
  return report.verdict.is_clear && !is_warm_after_all(report) ? report.best : TuneSetting();
}

}  // namespace stoker::cli
