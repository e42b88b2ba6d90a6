/// \file
/// A command and its options, as the commands declare them. CLI11 parses behind this header: its
/// templates take seconds to compile in each file that includes them.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/context.h"
#include "stoker/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stoker::cli {

/// Restricts the values of an option: the test returns what is wrong with a value, or an empty
/// string.
struct Check {
  std::function<std::string(const std::string&)> test;
  std::string help = {};                ///< Printed beside the option's name: "UINT in [1 - 1024]".
  std::vector<std::string> words = {};  ///< All valid values, if these are words.
};

/// Accepts whole numbers of at least `least` (0 or 1).
Check count_from(unsigned least);
Check count_between(std::uint32_t least, std::uint32_t most);
Check one_of(std::vector<std::string> words);

/// An option or an argument of a command. Setters return the option, so that they can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  Option* check(const Check& check);
  /// Sets what the help calls the value: "SIZE" in place of "TEXT".
  Option* value_name(std::string_view name);
  /// Expands "~" where the shell does not: in quotes, or in --option=~/x.
  Option* as_path();
  Option* excludes(const Option* other);
  /// Sets the heading under which the help lists the option.
  Option* group(const std::string& heading);
  /// Splits each word into several values at `separator`.
  Option* delimiter(char separator);
  /// Takes one value each time it is given, not the words after it.
  Option* one_value_each();

 private:
  friend class Command;
  CLI::Option* option_;
  std::vector<std::string> words_;
  bool is_path_ = false;
};

/// What the help says of an option or an argument, for completion and manual pages.
struct OptionDescription {
  std::vector<std::string> names;  ///< "-h" and "--help", or "DIR".
  bool is_argument = false;
  bool is_required = false;
  bool is_repeated = false;        ///< Takes any number of values.
  std::string value;               ///< What it takes: "TEXT", "UINT"; empty for a flag.
  std::vector<std::string> words;  ///< All valid values, if these are words.
  bool is_path = false;
  std::string help;
};

struct CommandDescription {
  std::string name;  ///< With the commands before it: "stoker bench disk".
  std::string help;
  std::string footer;
  std::vector<OptionDescription> options;  ///< Arguments first; without former names.
  std::vector<CommandDescription> subcommands;
};

/// Options and subcommands live as long as the command.
class Command {
 public:
  explicit Command(CLI::App* app);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  Command* add_subcommand(const std::string& name, const std::string& description);
  void require_subcommand();
  void footer(const std::string& text);

  /// Adds an option if the name begins with "--", otherwise a positional argument. `value` keeps
  /// its default if the option is not given. `Value` must be one of the types at the end of
  /// command.cc.
  template <typename Value>
  Option* add_option(const std::string& names, Value& value, const std::string& help);
  Option* add_flag(const std::string& names, bool& value, const std::string& help);
  /// Adds a former name of `option`: it still works, is not in the help or in suggestions, and
  /// cannot be combined with the new name.
  template <typename Value>
  Option* add_old_name(const std::string& name, const Option* option, Value& value);

  /// Calls `action` if the command was chosen and its options are valid. A Status that is not ok is
  /// thrown as CommandFailed.
  void on_chosen(std::function<Status()> action);

  /// Returns the help of the subcommand that `words` name. `invalid_argument` if there is none.
  Result<std::string> help(const std::vector<std::string>& words) const;
  CommandDescription describe() const;

 private:
  Option* keep(CLI::Option* option);

  CLI::App* app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

/// Calls `run(*arguments, context)`, which returns a Status, if the command was chosen.
template <typename Arguments>
void on_chosen(Command& command, std::shared_ptr<Arguments> arguments, Context& context,
               Status (*run)(const Arguments&, Context&)) {
  command.on_chosen(
      [arguments = std::move(arguments), &context, run] { return run(*arguments, context); });
}

/// The program: the top-level command and the arguments after its name.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command& top() noexcept { return *top_; }
  /// Adds --version, which prints `text()` and ends the program, and --json, with which it prints
  /// `json()`.
  void add_version(std::function<std::string()> text, std::function<std::string()> json);
  /// Calls `action` after all arguments are parsed, before the action of the chosen command.
  void before_chosen(std::function<void()> action);
  /// Parses `argv` and runs the chosen command. False if the arguments are invalid: one line on
  /// `context.err` says why. Throws CommandFailed.
  bool run(int argc, const char* const* argv, Context& context);
  /// Returns "stoker", "stoker bench disk": the commands that were recognized.
  std::string chosen_name() const;
  bool chosen_has(const std::string& option) const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<Command> top_;
};

}  // namespace stoker::cli
