#pragma once

#include "formats/json/strict_json.h"

namespace stoker {

/// As parse_strict_json(), for values that are kept: integers that do not fit 64 bits, which would
/// be read as the nearest double, are refused, too.
Result<Json> parse_exact_json(std::string_view text, std::string_view what,
                              const StrictJsonLimits& limits = {});

}  // namespace stoker
