/// \file
/// Renders a CliffReport as text. Uses no I/O and no clock.
#pragma once

#include <string>

#include "bench/cliff/cliff_bench.h"

namespace stoker {

std::string render_cliff_text(const CliffReport& report);  ///< For people.
std::string render_cliff_json(const CliffReport& report);  ///< One object; `cliff` may be null.

}  // namespace stoker
