#pragma once

#include <functional>
#include <memory>

#include "io/engine.h"

namespace stoker {

/// Makes an engine on the thread that will use it. Injected, so that tests see every byte written.
using EngineFactory = std::function<Result<std::unique_ptr<Engine>>()>;

}  // namespace stoker
