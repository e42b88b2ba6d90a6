/// \file
/// Scripts that complete commands and options in a shell, made from what the help says.
#pragma once

#include <string>

#include "cli/command.h"

namespace stoker::cli {

std::string bash_completion(const CommandDescription& program);
std::string zsh_completion(const CommandDescription& program);

/// "disk" of "stoker bench disk".
std::string last_word(const std::string& name);

}  // namespace stoker::cli
