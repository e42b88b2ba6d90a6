#pragma once

#include <functional>
#include <memory>

#include "io/engine/engine.h"

namespace stoker {

/// Makes an engine; called on the thread that will use it. Passed in as an option, so that tests
/// can observe every transfer.
using EngineFactory = std::function<Result<std::unique_ptr<Engine>>()>;

/// Returns a factory for engines of that kind only. Returns an empty function for `automatic`: the
/// code that receives it then chooses the engine.
inline EngineFactory make_engine_factory(EngineKind kind) {
  constexpr std::uint32_t kDepth = 8;
  if (kind == EngineKind::automatic) return {};
  return [kind] { return make_engine(kind, {.depth = kDepth}); };
}

}  // namespace stoker
