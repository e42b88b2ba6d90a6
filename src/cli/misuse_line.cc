#include "cli/misuse_line.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "cli/line_text.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kTyposMax = 2;
constexpr std::size_t kBegunMin = 3;  // letters needed to complete a name

/// Counts letters to insert, remove, replace or swap with their neighbor (optimal string
/// alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> table(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) table[i][0] = i;
  std::iota(table[0].begin(), table[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({replaced, table[i - 1][j] + 1, table[i][j - 1] + 1});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  }
  return table.back().back();
}

/// Returns the name in `names` that was probably meant by `typed`; empty if none is close.
std::string nearest(const std::vector<std::string>& names, std::string_view typed) {
  std::string found;
  std::size_t least = kTyposMax + 1;
  for (const std::string& name : names) {
    const bool is_begun = typed.size() >= kBegunMin && name.starts_with(typed);
    const std::size_t distance = is_begun ? 1 : edit_distance(typed, name);
    if (distance >= least || distance >= name.size()) continue;
    least = distance;
    found = name;
  }
  return found;
}

std::vector<std::string> command_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::App* const sub : command.get_subcommands({})) names.push_back(sub->get_name());
  return names;
}

/// Returns long names without dashes, and without old spellings, which have no group.
std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* const option : command.get_options()) {
    if (option->get_group().empty()) continue;
    const std::vector<std::string>& found = option->get_lnames();
    names.insert(names.end(), found.begin(), found.end());
  }
  return names;
}

/// Describes an option that no command on the line has; empty if there is none.
std::string no_such_option(const CLI::App& app) {
  const CLI::App& chosen = deepest_command(app);
  for (const CLI::App* command = &app;; command = command->get_subcommands().front()) {
    for (const std::string& word : command->remaining()) {
      if (!word.starts_with("-") || word.find_first_not_of('-') == std::string::npos) continue;
      const std::string typed = word.substr(0, word.find('='));
      const std::string bare = typed.substr(typed.find_first_not_of('-'));
      const std::string meant = nearest(option_names(chosen), bare);
      if (meant == bare && command != &chosen)
        return fmt::format("{} belongs after {}", printable(typed), chosen.get_name());
      return fmt::format("there is no option {}{}", printable(typed),
                         meant.empty() ? "" : fmt::format("; did you mean --{}?", meant));
    }
    if (command == &chosen) return "";
  }
}

/// Describes a missing or unknown subcommand where one is required.
std::string no_command(const CLI::App& app) {
  const CLI::App& command = deepest_command(app);
  for (const std::string& typed : command.remaining())
    if (!typed.starts_with("-")) return no_such_command(command, typed);
  const std::string option = no_such_option(app);
  return option.empty() ? "a command is needed" : option;
}

}  // namespace

const CLI::App& deepest_command(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) command = command->get_subcommands().front();
  return *command;
}

std::string command_name(const CLI::App& app) {
  std::string name = app.get_name();
  for (const CLI::App* command = &app; !command->get_subcommands().empty();) {
    command = command->get_subcommands().front();
    name.append(" ").append(command->get_name());
  }
  return name;
}

std::string no_such_command(const CLI::App& command, std::string_view typed) {
  const auto nested = [&]() -> std::string {
    for (const CLI::App* const sub : command.get_subcommands({}))
      if (const std::string name = nearest(command_names(*sub), typed); !name.empty())
        return sub->get_name() + " " + name;
    return {};
  };
  std::string meant = nearest(command_names(command), typed);
  if (meant.empty()) meant = nested();
  return fmt::format("there is no command {}{}", printable(typed),
                     meant.empty() ? "" : fmt::format("; did you mean {}?", meant));
}

std::string misuse_line(const CLI::App& app, const CLI::Error& error) {
  // CLI11 reports both errors after all words are parsed: the cause is then a misspelt option.
  // Compared by code, because the name of an error may be that of the command.
  const auto is = [&](CLI::ExitCodes code) {
    return error.get_exit_code() == static_cast<int>(code);
  };
  const bool is_required = is(CLI::ExitCodes::RequiredError);
  const bool is_about_words = is_required || is(CLI::ExitCodes::ExtrasError);
  const bool wants_command = is_required && deepest_command(app).get_require_subcommand_min() > 0;
  std::string what = wants_command    ? no_command(app)
                     : is_about_words ? no_such_option(app)
                                      : std::string();
  if (what.empty()) what = printable(error.what());
  const std::string name = command_name(app);
  return fmt::format("{}: {} ({} --help)\n", name, what, name);
}

}  // namespace stoker::cli
