#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stoker::cli {

/// "stoker", "stoker bench disk": the command line as far as it was understood.
std::string command_name(const CLI::App& app);

/// One line about a command line that could not be understood, with its end: what is wrong, and
/// where to read on; of a command that does not exist, the one that was probably meant.
std::string misuse_line(const CLI::App& app, const CLI::Error& error);

}  // namespace stoker::cli
