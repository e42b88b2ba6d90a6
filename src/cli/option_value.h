/// \file
/// Values of options, refused with the option's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "stoker/status.h"

namespace stoker::cli {

/// `parsed`, with the option's name before the refusal.
template <typename T>
Result<T> named(std::string_view option, Result<T> parsed) {
  return parsed.ok() ? std::move(parsed) : Result<T>(parsed.status().with_context(option));
}

/// parse_bytes with the option's name before the refusal.
Result<std::uint64_t> parse_size_option(std::string_view option, const std::string& text);

}  // namespace stoker::cli
