/// \file
/// Parsing of option values, with errors that begin with the option's name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "stoker/status.h"

namespace stoker::cli {

/// Returns `parsed`; an error gets the option's name as context.
template <typename T>
Result<T> named(std::string_view option, Result<T> parsed) {
  return parsed.ok() ? std::move(parsed) : Result<T>(parsed.status().with_context(option));
}

/// Like parse_bytes(); an error begins with the option's name.
Result<std::uint64_t> parse_size_option(std::string_view option, const std::string& text);

}  // namespace stoker::cli
