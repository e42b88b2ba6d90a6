#include <cerrno>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/manual/man_page.h"
#include "cli/registry.h"
#include "cli/result_writer.h"

namespace stoker::cli {
namespace {

struct HelpArguments {
  std::vector<std::string> words;
  std::string man_pages;
};

/// For packages, which install them. Files that are there already are replaced.
Status write_man_pages(const CommandDescription& command, const CommandDescription& root,
                       const std::string& directory) {
  const std::string path = directory + "/" + man_page_name(command);
  std::ofstream file(path, std::ios::binary);
  file << man_page(command, root);
  file.close();
  if (!file) return Status::from_errno(errno, "write", path);
  for (const CommandDescription& sub : command.subcommands)
    STOKER_TRY(write_man_pages(sub, root, directory));
  return {};
}

}  // namespace

void add_help_command(Command& stoker, Context& context) {
  Command* const command = stoker.add_subcommand(
      "help", "Show this help, or that of a command: stoker help bench disk.");
  const auto arguments = std::make_shared<HelpArguments>();
  command->add_option("COMMAND", arguments->words, "Command, and its subcommand if it has any.");
  command
      ->add_option("--man-pages", arguments->man_pages,
                   "Write the manual pages of all commands into this directory instead.")
      ->as_path();
  command->on_chosen([&stoker, arguments, &context]() -> Status {
    if (!arguments->man_pages.empty()) {
      const CommandDescription root = stoker.describe();
      return write_man_pages(root, root, arguments->man_pages);
    }
    STOKER_ASSIGN(const std::string help, stoker.help(arguments->words));
    return write_out(context, help);
  });
}

}  // namespace stoker::cli
