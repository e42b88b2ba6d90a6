#pragma once

#include "io/engine/engine.h"

namespace stoker::python {

/// Returns the engine that STOKER_ENGINE names, otherwise automatic; raises ValueError for an
/// unknown name. Only this function and the command line read settings from the environment, never
/// the library.
EngineKind engine_setting();

}  // namespace stoker::python
