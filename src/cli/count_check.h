#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stoker::cli {

/// For options that are counts, from `least` (0 or 1) on. CLI11's own conversion takes "-1" for the
/// largest number there is, and its PositiveNumber tells people of ranges up to 10^308.
inline CLI::Validator count_from(unsigned least) {
  return CLI::Validator(
      [least](const std::string& text) {
        const bool is_number =
            !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        const bool is_zero = text.find_first_not_of('0') == std::string::npos;
        return is_number && (least == 0 || !is_zero)
                   ? std::string()
                   : "not a whole number from " + std::to_string(least) + " on: " + text;
      },
      "");
}

}  // namespace stoker::cli
