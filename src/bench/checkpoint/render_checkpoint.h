#pragma once

#include <string>

#include "bench/checkpoint/checkpoint_bench.h"

namespace stoker {

/// For people.
std::string render_checkpoint_text(const CheckpointReport& report);
/// One object, for programs: times in nanoseconds, rates in bytes per second.
std::string render_checkpoint_json(const CheckpointReport& report);

}  // namespace stoker
