#pragma once

#include <string>
#include <string_view>

#include "cli/command.h"

namespace stoker::cli {

/// Returns the manual page of a command, in the man(7) language, made from what its help says.
/// `root` is the program's description.
std::string man_page(const CommandDescription& command, const CommandDescription& root);

/// Returns the name of the file: "stoker-bench-disk.1".
std::string man_page_name(const CommandDescription& command);

/// Returns the beginning of `help` up to the end of its first sentence, as one line.
std::string first_sentence(std::string_view help);

}  // namespace stoker::cli
