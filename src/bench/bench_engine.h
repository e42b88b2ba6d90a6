#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/engine/engine.h"
#include "stoker/status.h"

namespace stoker {

struct BenchEngine {
  std::unique_ptr<Engine> engine;
  std::string reason;  ///< Why this engine: "asked for", or the result of the probe.
};

/// Makes the engine to measure with. If the requested one does not work, returns `unsupported` with
/// a message that names others: a benchmark never measures another engine than requested.
Result<BenchEngine> make_bench_engine(EngineKind kind, std::uint32_t depth);

}  // namespace stoker
