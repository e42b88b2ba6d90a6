#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace stoker::cli {

/// The subcommand that was typed, its subcommand, and so on; `app` if there is none.
const CLI::App& deepest_command(const CLI::App& app);

/// "stoker", "stoker bench disk": the command line as far as it was understood.
std::string command_name(const CLI::App& app);

/// "there is no command bnch; did you mean bench?"
std::string no_such_command(const CLI::App& command, std::string_view typed);

/// One line about a command line that could not be understood, with its end: what is wrong, and
/// where to read on; of a command or an option that does not exist, the one that was probably
/// meant.
std::string misuse_line(const CLI::App& app, const CLI::Error& error);

}  // namespace stoker::cli
