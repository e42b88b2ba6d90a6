#include <memory>
#include <string>

#include "cli/manual/completion.h"
#include "cli/registry.h"
#include "cli/result_writer.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    "Packages install these scripts where shells look for them. Otherwise add one of these lines "
    "to "
    "~/.bashrc or ~/.zshrc (after compinit):\n"
    "\n"
    "  source <(stoker completion bash)\n"
    "  source <(stoker completion zsh)";

}  // namespace

void add_completion_command(Command& stoker, Context& context) {
  Command* const command = stoker.add_subcommand(
      "completion", "Print a script with which a shell completes commands and options.");
  const auto shell = std::make_shared<std::string>();
  command->add_option("SHELL", *shell, "Shell to print the script for.")
      ->check(one_of({"bash", "zsh"}))
      ->required();
  command->footer(kFooter);
  command->on_chosen([&stoker, shell, &context]() -> Status {
    const CommandDescription program = stoker.describe();
    return write_out(context,
                     *shell == "bash" ? bash_completion(program) : zsh_completion(program));
  });
}

}  // namespace stoker::cli
