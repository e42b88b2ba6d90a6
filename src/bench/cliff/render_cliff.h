/// \file
/// A CliffReport as text. Pure: no I/O, no clock.
#pragma once

#include <string>

#include "bench/cliff/cliff_bench.h"

namespace stoker {

std::string render_cliff_text(const CliffReport& report);  ///< For people.
std::string render_cliff_json(const CliffReport& report);  ///< One object; `cliff` may be null.

}  // namespace stoker
