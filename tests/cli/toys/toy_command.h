#pragma once

#include "cli/command.h"

namespace stoker::cli {

/// Adds "stoker count TEXT...", which counts the letters of words.
void add_toy_command(Command& stoker, Context& context);

}  // namespace stoker::cli
