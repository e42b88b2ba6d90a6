#include "cli/help_formatter.h"

#include <algorithm>
#include <sstream>

namespace stoker::cli {
namespace {

/// Appends the words of one line to a paragraph whose last line is `used` columns long.
void append_words(std::string& filled, std::size_t& used, std::string_view line,
                  std::size_t columns) {
  for (std::size_t begin = 0; begin < line.size();) {
    const std::size_t end = std::min(line.find(' ', begin), line.size());
    const std::string_view word = line.substr(begin, end - begin);
    begin = end + 1;
    if (word.empty()) continue;
    if (used != 0 && used + 1 + word.size() > columns) {
      filled += '\n';
      used = 0;
    }
    if (used != 0) filled += ' ';
    filled += word;
    used += (used != 0 ? 1 : 0) + word.size();
  }
}

}  // namespace

std::string fill_text(std::string_view text, std::size_t columns) {
  std::string filled;
  std::size_t used = 0;  // 0: not inside a paragraph
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    if (!line.empty() && line.front() != ' ') {
      append_words(filled, used, line, columns);
      continue;
    }
    if (used != 0) filled += '\n';
    used = 0;
    filled.append(line).append("\n");
  }
  if (used == 0 && !filled.empty()) filled.pop_back();
  return filled;
}

std::string HelpFormatter::make_description(const CLI::App* app) const {
  return fill_text(app->get_description(), kHelpColumns) + "\n";
}

std::string HelpFormatter::make_footer(const CLI::App* app) const {
  const std::string footer = app->get_footer();
  return footer.empty() ? footer : fill_text(footer, kHelpColumns) + "\n";
}

std::string HelpFormatter::make_subcommand(const CLI::App* sub) const {
  std::ostringstream out;
  CLI::detail::format_help(out, sub->get_display_name(true),
                           fill_text(sub->get_description(), right_columns()), get_column_width());
  return out.str();
}

std::string HelpFormatter::make_option_desc(const CLI::Option* option) const {
  return fill_text(option->get_description(), right_columns());
}

}  // namespace stoker::cli
