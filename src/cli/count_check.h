#pragma once

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <string>
#include <system_error>

namespace stoker::cli {

/// For options that are counts, from `least` (0 or 1) on. CLI11's own conversion takes "-1" for the
/// largest number there is, and so any that is larger; its PositiveNumber tells people of ranges up
/// to 10^308.
inline CLI::Validator count_from(unsigned least) {
  return CLI::Validator(
      [least](const std::string& text) {
        const bool is_number =
            !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
        const bool is_zero = text.find_first_not_of('0') == std::string::npos;
        if (!is_number || (least > 0 && is_zero))
          return "not a whole number from " + std::to_string(least) + " on: " + text;
        std::uint64_t number = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
        return error == std::errc() ? std::string() : "the number is too large: " + text;
      },
      "");
}

}  // namespace stoker::cli
