#pragma once

#include <string>

#include "bench/gpu/gpu_bench.h"

namespace stoker {

std::string render_gpu_text(const GpuReport& report);
std::string render_gpu_json(const GpuReport& report);

}  // namespace stoker
