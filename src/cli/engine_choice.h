/// \file
/// Which engine a command uses: the environment is read here, and never in the library.
#pragma once

#include <string>

#include "io/engine/engine.h"

namespace stoker::cli {

/// The engine that `flag` names; if that is empty the one that STOKER_ENGINE names; else automatic.
/// `invalid_argument` says which of the two is wrong.
Result<EngineKind> choose_engine(const std::string& flag);

/// For commands without the flag: the engine that STOKER_ENGINE names, made once to see that it
/// works before anything is begun; else automatic. `unsupported` if it does not.
Result<EngineKind> try_engine();

}  // namespace stoker::cli
