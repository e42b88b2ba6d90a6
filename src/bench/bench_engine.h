#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/engine/engine.h"
#include "stoker/status.h"

namespace stoker {

struct BenchEngine {
  std::unique_ptr<Engine> engine;
  std::string reason;  ///< Why this one: "asked for", or what the probe found.
};

/// An engine to measure with. Where the one asked for does not work, the refusal says which does:
/// a benchmark never measures something else than it was asked to.
Result<BenchEngine> make_bench_engine(EngineKind kind, std::uint32_t depth);

}  // namespace stoker
