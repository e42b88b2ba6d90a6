#pragma once

#include "io/engine/engine.h"

namespace stoker::python {

/// Returns the engine that STOKER_ENGINE names, otherwise automatic; raises ValueError for an
/// unknown name. Settings are read from the environment here, by the command line and by the Python
/// package, never by the library.
EngineKind engine_setting();

}  // namespace stoker::python
