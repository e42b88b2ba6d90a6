#pragma once

#include <string>

#include "bench/checkpoint/checkpoint_bench.h"

namespace stoker {

/// Renders a table for people.
std::string render_checkpoint_text(const CheckpointReport& report);
/// Renders one JSON object: times in nanoseconds, rates in bytes per second.
std::string render_checkpoint_json(const CheckpointReport& report);

}  // namespace stoker
