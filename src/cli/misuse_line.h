#pragma once

#include <string>
#include <string_view>

namespace CLI {
class App;
class Error;
}  // namespace CLI

namespace stoker::cli {

/// Returns the innermost subcommand that was typed; `app` if there is none.
const CLI::App& deepest_command(const CLI::App& app);

/// Returns "stoker", "stoker bench disk": the commands that were recognized.
std::string command_name(const CLI::App& app);

/// "there is no command bnch; did you mean bench?"
std::string no_such_command(const CLI::App& command, std::string_view typed);

/// Returns one line, with its line break, about an invalid command line: what is wrong, and which
/// --help to read. For an unknown command or option it suggests the one that was probably meant.
std::string misuse_line(const CLI::App& app, const CLI::Error& error);

}  // namespace stoker::cli
