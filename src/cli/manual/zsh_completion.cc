#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "cli/manual/completion.h"
#include "cli/manual/man_page.h"

namespace stoker::cli {
namespace {

/// Puts a backslash before each of `special`, and the whole into single quotes.
std::string escaped(std::string_view text, std::string_view special) {
  std::string result;
  for (const char letter : text) {
    if (letter == '\\' || special.find(letter) != std::string_view::npos) result += '\\';
    if (letter == '\'')
      result += "'\\''";
    else
      result += letter;
  }
  return result;
}

std::string function_name(const CommandDescription& command) {
  std::string name = "_" + command.name;
  std::ranges::replace(name, ' ', '_');
  return name;
}

/// What completes the value: ":TEXT:_files", ":TEXT:(dataset checkpoint)".
std::string value_of(const OptionDescription& option) {
  const std::string action = option.is_path ? "_files"
                             : option.words.empty()
                                 ? ""
                                 : fmt::format("({})", fmt::join(option.words, " "));
  const std::string what = option.is_argument ? option.names.front() : option.value;
  return fmt::format(":{}:{}", escaped(what, ":"), action);
}

/// One specification of _arguments.
std::string specification(const OptionDescription& option) {
  if (option.is_argument)
    return "'" + (option.is_repeated ? "*" + value_of(option) : value_of(option)) + "'";
  const std::string help = fmt::format("[{}]", escaped(first_sentence(option.help), "[]"));
  const std::string value = option.value.empty() ? "" : value_of(option);
  if (option.names.size() == 1) {
    const char* const takes = option.value.empty() ? "" : "=";
    return fmt::format("'{}{}{}{}{}'", option.is_repeated ? "*" : "", option.names.front(), takes,
                       help, value);
  }
  return fmt::format("'({})'{{{}}}'{}{}'", fmt::join(option.names, " "),
                     fmt::join(option.names, ","), help, value);
}

void write_command(const CommandDescription& command, std::string& script) {
  script += fmt::format("{}() {{\n", function_name(command));
  if (!command.subcommands.empty()) {
    script += "  local curcontext=\"$curcontext\" state line\n  local -a commands=(\n";
    for (const CommandDescription& sub : command.subcommands)
      script +=
          fmt::format("    '{}:{}'\n", last_word(sub.name), escaped(first_sentence(sub.help), ""));
    script += "  )\n";
  }
  script += command.subcommands.empty() ? "  _arguments" : "  _arguments -C";
  for (const OptionDescription& option : command.options)
    script += " \\\n    " + specification(option);
  if (command.subcommands.empty()) {
    script += "\n}\n\n";
    return;
  }
  script += " \\\n    '1:command:->command' \\\n    '*::argument:->argument'\n";
  script +=
      "  case $state in\n  command) _describe command commands ;;\n  argument)\n    case $words[1] "
      "in\n";
  for (const CommandDescription& sub : command.subcommands) {
    const std::string word = last_word(sub.name);
    // After `help` come the commands themselves.
    const std::string action = word == "help" ? function_name(command) : function_name(sub);
    script += fmt::format("    {}) {} ;;\n", word, action);
  }
  script += "    esac ;;\n  esac\n}\n\n";
  for (const CommandDescription& sub : command.subcommands)
    if (!sub.name.ends_with(" help")) write_command(sub, script);
}

}  // namespace

std::string zsh_completion(const CommandDescription& program) {
  const std::string function = function_name(program);
  std::string script = fmt::format(
      "#compdef {0}\n# zsh completion for {0}, written by `{0} completion zsh`.\n\n", program.name);
  write_command(program, script);
  // Loaded by zsh from a folder of $fpath, or read by `source <(stoker completion zsh)`.
  return script +
         fmt::format(
             "if [[ $funcstack[1] == {0} ]]; then\n  {0} \"$@\"\nelse\n  compdef {0} {1}\nfi\n",
             function, program.name);
}

}  // namespace stoker::cli
