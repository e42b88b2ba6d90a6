#include "cli/manual/man_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/version.h"

namespace stoker::cli {
namespace {

constexpr std::string_view kExamples = "Examples:";
constexpr std::string_view kExitStatus = "Exit status: ";

/// Text as it is printed: a hyphen that can be copied, no control character at the start of a line.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const bool is_line_start = result.empty() || result.back() == '\n';
    if (is_line_start && (letter == '.' || letter == '\'')) result += "\\&";
    if (letter == '\\')
      result += "\\e";
    else if (letter == '-')
      result += "\\-";
    else
      result += letter;
  }
  return result;
}

std::string bold(std::string_view text) {
  return "\\fB" + escaped(text) + "\\fR";
}

std::string italic(std::string_view text) {
  return "\\fI" + escaped(text) + "\\fR";
}

std::string page_name(std::string_view command) {
  std::string name(command);
  std::ranges::replace(name, ' ', '-');
  return name;
}

/// "--threads UINT", "--role dataset|checkpoint".
std::string option_head(const OptionDescription& option) {
  std::string head;
  for (const std::string& name : option.names)
    head += (head.empty() ? "" : ", ") + (option.is_argument ? italic(name) : bold(name));
  if (option.is_argument || option.value.empty()) return head;
  if (option.words.empty()) return head + " " + italic(option.value);
  std::string words;
  for (const std::string& word : option.words) words += (words.empty() ? "" : "|") + bold(word);
  return head + " " + words;
}

std::string synopsis(const CommandDescription& command) {
  std::string line = bold(command.name);
  if (!command.options.empty()) line += " [" + italic("OPTIONS") + "]";
  for (const OptionDescription& option : command.options) {
    if (!option.is_argument) continue;
    const std::string name = italic(option.names.front()) + (option.is_repeated ? "..." : "");
    line += option.is_required ? " " + name : " [" + name + "]";
  }
  if (!command.subcommands.empty()) line += " " + italic("COMMAND");
  return line;
}

/// The paragraphs of a help text, after a heading. Indented lines are examples, and keep their
/// form.
std::string paragraphs(std::string_view text) {
  std::string page;
  bool is_example = false;
  bool is_break = false;  // before this line
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (is_example && !line.starts_with(' ')) {
      page += ".RE\n.fi\n";
      is_break = true;
    }
    const bool was_example = std::exchange(is_example, line.starts_with(' '));
    if (line.empty()) {
      is_break = true;
    } else if (line == kExamples) {
      page += ".SH EXAMPLES\n";
      is_break = false;
    } else if (line.starts_with(kExitStatus)) {
      line.remove_prefix(kExitStatus.size());
      page += ".SH \"EXIT STATUS\"\n" + escaped(line) + "\n";
      is_break = false;
    } else {
      if (is_break && !was_example) page += ".PP\n";
      if (is_example && !was_example) page += ".nf\n.RS 4\n";
      page +=
          escaped(is_example ? line.substr(std::min<std::size_t>(2, line.size())) : line) + "\n";
      is_break = false;
    }
  }
  return is_example ? page + ".RE\n.fi\n" : page;
}

std::string options_section(const CommandDescription& command, bool arguments) {
  std::string section;
  for (const OptionDescription& option : command.options)
    if (option.is_argument == arguments)
      section += fmt::format(".TP\n{}\n{}\n", option_head(option), escaped(option.help));
  if (section.empty()) return section;
  return (arguments ? ".SH ARGUMENTS\n" : ".SH OPTIONS\n") + section;
}

void list_related(const CommandDescription& command, const std::string& name,
                  std::vector<std::string>& found) {
  const bool is_above = name.starts_with(command.name + " ");
  const bool is_below = command.name.starts_with(name + " ") &&
                        command.name.find(' ', name.size() + 1) == std::string::npos;
  if (is_above || is_below) found.push_back(command.name);
  for (const CommandDescription& sub : command.subcommands) list_related(sub, name, found);
}

/// The commands above this one and directly below it.
std::string see_also(const CommandDescription& command, const CommandDescription& root) {
  std::vector<std::string> related;
  list_related(root, command.name, related);
  std::string section;
  for (const std::string& name : related)
    section += (section.empty() ? ".SH \"SEE ALSO\"\n" : ",\n") + bold(page_name(name)) + "(1)";
  return section.empty() ? section : section + "\n";
}

}  // namespace

std::string man_page_name(const CommandDescription& command) {
  return page_name(command.name) + ".1";
}

std::string first_sentence(std::string_view help) {
  std::string line(help);
  std::ranges::replace(line, '\n', ' ');
  const std::size_t end = line.find(". ");
  return end == std::string::npos ? line : line.substr(0, end + 1);
}

std::string man_page(const CommandDescription& command, const CommandDescription& root) {
  std::string capitals = page_name(command.name);
  std::ranges::transform(capitals, capitals.begin(), [](char letter) {
    return letter >= 'a' && letter <= 'z' ? letter - 32 : letter;
  });
  const std::string title = first_sentence(command.help);
  std::string page =
      fmt::format(".TH {} 1 \"\" \"Stoker {}\" \"Stoker Manual\"\n", capitals, kVersion);
  page += fmt::format(".SH NAME\n{} \\- {}\n", escaped(page_name(command.name)),
                      escaped(title.substr(0, title.find_last_not_of('.') + 1)));
  page += ".SH SYNOPSIS\n" + synopsis(command) + "\n";
  page += options_section(command, true);
  page += options_section(command, false);
  if (!command.subcommands.empty()) page += ".SH COMMANDS\n";
  for (const CommandDescription& sub : command.subcommands)
    page += fmt::format(".TP\n{}\n{}\n", bold(sub.name), escaped(sub.help));
  std::string description = title == command.help ? "" : command.help;
  // A footer may begin with its examples.
  const bool is_headed =
      command.footer.starts_with(kExamples) || command.footer.starts_with(kExitStatus);
  if (!description.empty()) description += is_headed || command.footer.empty() ? "\n" : "\n\n";
  if (!description.empty() || (!command.footer.empty() && !is_headed)) page += ".SH DESCRIPTION\n";
  page += paragraphs(description + command.footer);
  return page + see_also(command, root);
}

}  // namespace stoker::cli
