#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/misuse_line.h"
#include "cli/result_writer.h"

namespace stoker::cli {
namespace {

struct Arguments {
  std::vector<std::string> words;
};

/// The same text as of `stoker COMMAND --help`. Not App::help(), which looks at what was parsed and
/// would describe `help` itself.
Status run(const CLI::App& app, const Arguments& arguments, Context& context) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  for (const std::string& word : arguments.words) {
    const std::vector<const CLI::App*> found = command->get_subcommands(
        [&](const CLI::App* candidate) { return candidate->get_name() == word; });
    if (found.empty()) return Status(Code::invalid_argument, no_such_command(*command, word));
    command = found.front();
    name.append(" ").append(word);
  }
  return write_out(context,
                   app.get_formatter()->make_help(command, name, CLI::AppFormatMode::Normal));
}

}  // namespace

void add_help_command(CLI::App& app, Context& context) {
  CLI::App* const command =
      app.add_subcommand("help", "Show this help, or that of a command: stoker help bench disk.");
  const auto arguments = std::make_shared<Arguments>();
  command->add_option("COMMAND", arguments->words, "Command, and its subcommand if it has any.");
  on_chosen(*command, arguments, context,
            [&app](const Arguments& given, Context& where) { return run(app, given, where); });
}

}  // namespace stoker::cli
