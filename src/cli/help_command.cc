#include <memory>
#include <string>
#include <vector>

#include "cli/registry.h"
#include "cli/result_writer.h"

namespace stoker::cli {

void add_help_command(Command& stoker, Context& context) {
  Command* const command = stoker.add_subcommand(
      "help", "Show this help, or that of a command: stoker help bench disk.");
  const auto words = std::make_shared<std::vector<std::string>>();
  command->add_option("COMMAND", *words, "Command, and its subcommand if it has any.");
  command->on_chosen([&stoker, words, &context]() -> Status {
    STOKER_ASSIGN(const std::string help, stoker.help(*words));
    return write_out(context, help);
  });
}

}  // namespace stoker::cli
