#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "cli/manual/completion.h"

namespace stoker::cli {
namespace {

constexpr const char* kBegin = R"(# bash completion for {0}, written by `{0} completion bash`.
_{0}() {{
  local command={0} word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} i
  local words= options= files=
  # --option=value is three words.
  if [[ $word == = ]]; then
    word=
  elif [[ $before == = ]]; then
    before=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${{COMP_WORDS[i]}}" in
    {1})
      command+=" ${{COMP_WORDS[i]}}" ;;
    esac
  done
  case $command in
)";

constexpr const char* kEnd = R"(  esac
  [[ $word == -* || -z $words$files ]] || options=
  COMPREPLY=($(compgen -W "$words $options" -- "$word"))
  if [[ $files && ${{#COMPREPLY[@]}} == 0 ]]; then compopt -o default; fi
}}
complete -F _{0} {0}
)";

/// The commands that are words after another one. `help` is none of them: after it come the others.
void list_commands(const CommandDescription& command, std::vector<std::string>& found) {
  for (const CommandDescription& sub : command.subcommands) {
    if (!sub.name.ends_with(" help")) found.push_back("\"" + sub.name + "\"");
    list_commands(sub, found);
  }
}

/// Options whose values are completed in the same way, as one branch of a `case`.
std::string value_branch(const std::vector<std::string>& names, const std::string& assignments) {
  if (names.empty()) return "";
  return fmt::format("    {}) options= files={} ;;\n", fmt::join(names, " | "), assignments);
}

std::string option_branches(const CommandDescription& command) {
  std::string branches;
  std::vector<std::string> paths;
  std::vector<std::string> others;
  for (const OptionDescription& option : command.options) {
    if (option.is_argument || option.value.empty()) continue;
    if (!option.words.empty())
      branches +=
          value_branch(option.names, fmt::format(" words='{}'", fmt::join(option.words, " ")));
    std::vector<std::string>& kind = option.is_path ? paths : others;
    if (option.words.empty()) kind.insert(kind.end(), option.names.begin(), option.names.end());
  }
  branches += value_branch(paths, "1");
  branches += value_branch(others, "");
  return branches.empty() ? "" : "    case $before in\n" + branches + "    esac\n";
}

void write_command(const CommandDescription& command, std::string& script) {
  std::vector<std::string> options;
  std::vector<std::string> words;
  bool takes_files = false;
  for (const OptionDescription& option : command.options) {
    takes_files |= option.is_argument && option.is_path;
    if (option.is_argument)
      words.insert(words.end(), option.words.begin(), option.words.end());
    else
      options.insert(options.end(), option.names.begin(), option.names.end());
  }
  for (const CommandDescription& sub : command.subcommands) words.push_back(last_word(sub.name));
  script += fmt::format("  \"{}\")\n    options='{}'\n", command.name, fmt::join(options, " "));
  if (!words.empty()) script += fmt::format("    words='{}'\n", fmt::join(words, " "));
  if (takes_files) script += "    files=1\n";
  script += option_branches(command);
  script += "    ;;\n";
  for (const CommandDescription& sub : command.subcommands) write_command(sub, script);
}

}  // namespace

std::string last_word(const std::string& name) {
  return name.substr(name.rfind(' ') + 1);
}

std::string bash_completion(const CommandDescription& program) {
  std::vector<std::string> commands;
  list_commands(program, commands);
  std::string script =
      fmt::format(fmt::runtime(kBegin), program.name, fmt::join(commands, " | \\\n      "));
  write_command(program, script);
  return script + fmt::format(fmt::runtime(kEnd), program.name);
}

}  // namespace stoker::cli
