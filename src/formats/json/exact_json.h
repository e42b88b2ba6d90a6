#pragma once

#include "formats/json/strict_json.h"

namespace stoker {

/// Like parse_strict_json(), but also rejects integers that do not fit 64 bits, which would be read
/// as the nearest double. For values that are stored.
Result<Json> parse_exact_json(std::string_view text, std::string_view what,
                              const StrictJsonLimits& limits = {});

}  // namespace stoker
