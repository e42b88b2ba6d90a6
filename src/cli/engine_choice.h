/// \file
/// Selects the engine of a command: only this file reads the environment, never the library.
#pragma once

#include <string>

#include "io/engine/engine.h"

namespace stoker::cli {

/// Returns the engine that `flag` names; if `flag` is empty, the one that STOKER_ENGINE names;
/// otherwise automatic. `invalid_argument` says which of the two is wrong.
Result<EngineKind> choose_engine(const std::string& flag);

/// For commands without --engine: returns the engine that STOKER_ENGINE names, after creating it
/// once to check that it works; otherwise automatic. `unsupported` if it does not work.
Result<EngineKind> try_engine();

}  // namespace stoker::cli
