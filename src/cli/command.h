/// \file
/// A command and its options, as the files of the commands declare them. CLI11 does the parsing,
/// behind this header: its templates take seconds to compile in each file that sees them.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/context.h"
#include "stoker/status.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace stoker::cli {

/// What an option may be: the test returns what is wrong with a value, or nothing.
struct Check {
  std::function<std::string(const std::string&)> test;
  std::string help = {};  ///< Printed beside the option's name: "UINT in [1 - 1024]".
};

/// Whole numbers from `least` (0 or 1) on.
Check count_from(unsigned least);
Check count_between(std::uint32_t least, std::uint32_t most);
Check one_of(std::vector<std::string> words);

/// An option or an argument of a command. Setters return the option, so that they can be chained.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}

  Option* required();
  Option* check(const Check& check);
  /// "~" is expanded where a shell did not, as in quotes or in --option=~/x.
  Option* as_path();
  Option* excludes(const Option* other);
  /// The heading in the help below which the option is listed.
  Option* group(const std::string& heading);
  /// Values in one word are separated by `separator`.
  Option* delimiter(char separator);
  /// Takes one value each time it is given, and not the words after it.
  Option* one_value_each();

 private:
  friend class Command;
  CLI::Option* option_;
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

  /// "--name" is an option, "NAME" an argument without one. `value` keeps its default if the option
  /// is not given. For the types that are listed at the end of command.cc.
  template <typename Value>
  Option* add_option(const std::string& names, Value& value, const std::string& help);
  Option* add_flag(const std::string& names, bool& value, const std::string& help);
  /// The name that `option` had in an earlier version: it still works, is in no help and in no
  /// suggestion, and cannot be given beside the new one.
  template <typename Value>
  Option* add_old_name(const std::string& name, const Option* option, Value& value);

  /// Calls `action` when the command was chosen and its options were understood. A Status that is
  /// not ok is thrown as CommandFailed.
  void on_chosen(std::function<Status()> action);

  /// The help of the subcommand that `words` name. `invalid_argument` if there is none.
  Result<std::string> help(const std::vector<std::string>& words) const;

 private:
  Option* keep(CLI::Option* option);

  CLI::App* app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<Command>> subcommands_;
};

/// Calls `run(*arguments, context)`, which returns a Status, when the command was chosen.
template <typename Arguments>
void on_chosen(Command& command, std::shared_ptr<Arguments> arguments, Context& context,
               Status (*run)(const Arguments&, Context&)) {
  command.on_chosen(
      [arguments = std::move(arguments), &context, run] { return run(*arguments, context); });
}

/// The program: the command at the top, and what is typed after its name.
class CommandLine {
 public:
  CommandLine(const std::string& name, const std::string& description, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  Command& top() noexcept { return *top_; }
  /// Calls `action` when all words were understood, before the chosen command's own.
  void before_chosen(std::function<void()> action);
  /// Runs what `argv` says. False if that was not understood: one line on `context.err` tells why.
  /// Throws CommandFailed.
  bool run(int argc, const char* const* argv, Context& context);
  /// "stoker", "stoker bench disk": the command line as far as it was understood.
  std::string chosen_name() const;
  bool chosen_has(const std::string& option) const;

 private:
  std::unique_ptr<CLI::App> app_;
  std::unique_ptr<Command> top_;
};

}  // namespace stoker::cli
