#pragma once

#include <functional>
#include <memory>

#include "io/engine/engine.h"

namespace stoker {

/// Makes an engine on the thread that will use it. Injected, so that tests see every byte written.
using EngineFactory = std::function<Result<std::unique_ptr<Engine>>()>;

/// Engines of that kind and no other. Nothing for `automatic`: the place that it is given to then
/// chooses for itself.
inline EngineFactory make_engine_factory(EngineKind kind) {
  constexpr std::uint32_t kDepth = 8;
  if (kind == EngineKind::automatic) return {};
  return [kind] { return make_engine(kind, {.depth = kDepth}); };
}

}  // namespace stoker
