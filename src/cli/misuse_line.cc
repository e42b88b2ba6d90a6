#include "cli/misuse_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "cli/sample_text.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kTyposMax = 2;

const CLI::App& deepest(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

/// Letters to insert, remove or replace (Levenshtein), one row of the table at a time.
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

/// The command that `typed` was probably meant to be; empty if none is near.
std::string nearest_command(const CLI::App& command, std::string_view typed) {
  std::string nearest;
  std::size_t least = kTyposMax + 1;
  for (const CLI::App* const sub : command.get_subcommands({})) {
    const std::size_t distance = edit_distance(typed, sub->get_name());
    if (distance >= least || distance >= sub->get_name().size()) continue;
    least = distance;
    nearest = sub->get_name();
  }
  return nearest;
}

/// What is wrong if no subcommand was understood where one has to be.
std::string no_command(const CLI::App& command) {
  const std::vector<std::string> words = command.remaining();
  for (const std::string& typed : words) {
    if (typed.starts_with("-")) continue;
    const std::string nearest = nearest_command(command, typed);
    return fmt::format("there is no command {}{}", printable(typed),
                       nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest));
  }
  if (!words.empty())
    return fmt::format("there is no option {} here, and a command is needed",
                       printable(words.front()));
  return "a command is needed";
}

}  // namespace

std::string command_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    name.append(" ").append(command->get_name());
  }
  return name;
}

std::string misuse_line(const CLI::App& app, const CLI::Error& error) {
  const CLI::App& command = deepest(app);
  const bool wants_command =
      command.get_require_subcommand_min() > 0 && error.get_name() == "RequiredError";
  const std::string name = command_name(app);
  return fmt::format("{}: {} ({} --help)\n", name,
                     wants_command ? no_command(command) : printable(error.what()), name);
}

}  // namespace stoker::cli
