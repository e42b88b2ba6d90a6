#pragma once

#include "io/engine/engine.h"

namespace stoker::python {

/// The engine that STOKER_ENGINE names, else automatic; raises ValueError for what names none.
/// Settings of the environment are read here and in the command line, never in the library.
EngineKind engine_setting();

}  // namespace stoker::python
