#include "cli/option_value.h"

#include "stoker/units.h"

namespace stoker::cli {

Result<std::uint64_t> parse_size_option(std::string_view option, const std::string& text) {
  return named(option, parse_bytes(text));
}

}  // namespace stoker::cli
