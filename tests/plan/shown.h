#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "stoker/plan.h"

namespace stoker::plan::testing {

inline constexpr double kKB = 1e3, kMB = 1e6, kGB = 1e9, kTB = 1e12, kGiB = 0x1p30;
inline constexpr double kPercent = 0.01;

/// Rounds to as many decimals as `like` has.
inline std::string rounded(double value, std::string_view like) {
  const std::size_t point = like.find('.');
  const std::size_t decimals = point == std::string_view::npos ? 0 : like.size() - point - 1;
  return fmt::format("{:.{}f}", value, decimals);
}

/// The step of that name, in a unit of `scale`, to the digits of `like`.
inline void expect_shown(const Result<Answer>& answer, std::string_view step, double scale,
                         std::string_view like) {
  ASSERT_TRUE(answer.ok()) << answer.status().message();
  for (const Step& found : answer->steps) {
    if (found.name != step) continue;
    EXPECT_EQ(rounded(found.value.count / scale, like), like) << step;
    return;
  }
  FAIL() << answer->kind << " has no step " << step;
}

}  // namespace stoker::plan::testing
