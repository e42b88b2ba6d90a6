#include "plan/toml.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "formats/utf8.h"
#include "plan/quantity_text.h"

namespace stoker::plan {
namespace {

bool is_bare(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-';
}

/// Reads one line after the other. `rest_` is what remains of the current one.
class Reader {
 public:
  Reader(std::string_view text, std::string_view what) : text_(text), what_(what) {}

  Result<std::vector<TomlTable>> read() {
    tables_.emplace_back();
    while (!text_.empty()) {
      take_line();
      STOKER_TRY(read_line());
    }
    return std::move(tables_);
  }

 private:
  Status refuse(std::string_view why) const {
    return Status(Code::invalid_argument, fmt::format("{}, line {}: {}", what_, line_, why));
  }

  void take_line() {
    const std::size_t end = std::min(text_.find('\n'), text_.size());
    rest_ = text_.substr(0, end);
    text_.remove_prefix(std::min(end + 1, text_.size()));
    if (rest_.ends_with('\r')) rest_.remove_suffix(1);
    ++line_;
  }

  void skip_blanks() {
    while (rest_.starts_with(' ') || rest_.starts_with('\t')) rest_.remove_prefix(1);
  }

  Status read_line() {
    const auto is_control = [](char c) {
      return (static_cast<unsigned char>(c) < ' ' && c != '\t') || c == '\x7f';
    };
    if (std::ranges::any_of(rest_, is_control)) return refuse("a control character");
    skip_blanks();
    if (rest_.empty() || rest_.starts_with('#')) return {};
    STOKER_TRY(rest_.starts_with('[') ? read_table() : read_entry());
    skip_blanks();
    if (rest_.empty() || rest_.starts_with('#')) return {};
    return refuse("text after the value; one \"key = value\" or [table] for each line");
  }

  std::string take_bare() {
    const auto end = std::ranges::find_if_not(rest_, is_bare);
    std::string word(rest_.begin(), end);
    rest_.remove_prefix(word.size());
    return word;
  }

  Status read_table() {
    TomlTable table;
    table.is_element = rest_.starts_with("[[");
    table.line = line_;
    rest_.remove_prefix(table.is_element ? 2 : 1);
    skip_blanks();
    table.name = take_bare();
    skip_blanks();
    const std::string_view close = table.is_element ? "]]" : "]";
    if (table.name.empty() || !rest_.starts_with(close))
      return refuse("expected [name] or [[name]] of letters, digits, \"_\" and \"-\"");
    rest_.remove_prefix(close.size());
    const auto [known, is_new] = tables_by_name_.emplace(table.name, table.is_element);
    if (!is_new && !(known->second && table.is_element))
      return refuse(fmt::format("[{}] again", quotable(table.name)));
    keys_.clear();
    tables_.push_back(std::move(table));
    return {};
  }

  Status read_entry() {
    TomlEntry entry{.key = take_bare(), .value = {}, .line = line_};
    skip_blanks();
    if (entry.key.empty() || !rest_.starts_with('='))
      return refuse("expected key = value, with a key of letters, digits, \"_\" and \"-\"");
    rest_.remove_prefix(1);
    skip_blanks();
    entry.is_string = rest_.starts_with('"');
    STOKER_TRY(entry.is_string ? read_string(entry.value) : read_plain(entry.key, entry.value));
    if (!keys_.insert(entry.key).second)
      return refuse(fmt::format("duplicate key {}", quotable(entry.key)));
    tables_.back().entries.push_back(std::move(entry));
    return {};
  }

  Status read_string(std::string& value) {
    if (rest_.starts_with("\"\"\"")) return refuse("a string of several lines is not supported");
    rest_.remove_prefix(1);
    while (!rest_.empty() && rest_.front() != '"') {
      if (rest_.front() == '\t') return refuse("a tab in a string");  // messages quote it
      if (rest_.front() == '\\') {
        rest_.remove_prefix(1);
        if (!rest_.starts_with('"') && !rest_.starts_with('\\'))
          return refuse("only the escapes \\\" and \\\\ are supported");
      }
      value += rest_.front();
      rest_.remove_prefix(1);
    }
    if (rest_.empty()) return refuse("the string has no closing quote");
    rest_.remove_prefix(1);
    return {};
  }

  /// A number or a boolean. What the number is worth, says the one who asks for it.
  Status read_plain(std::string_view key, std::string& value) {
    if (rest_.starts_with('-')) return refuse(fmt::format("{}: is negative", quotable(key)));
    const auto is_plain = [](char c) { return is_bare(c) || c == '.' || c == '+'; };
    const auto end = std::ranges::find_if_not(rest_, is_plain);
    const std::string word(rest_.begin(), end);
    rest_.remove_prefix(word.size());
    const bool is_number = !word.empty() && word.find_first_of("0123456789") == 0 &&
                           word.find_first_not_of("0123456789._eE+-") == std::string::npos;
    if (!is_number && word != "true" && word != "false")
      return refuse(fmt::format(
          "{}: expected a number, or a string in double quotes, like \"130KB\"", quotable(key)));
    if (word.starts_with('_') || word.ends_with('_') || word.find("__") != std::string::npos)
      return refuse("\"_\" belongs between two digits");
    std::ranges::copy_if(word, std::back_inserter(value), [](char c) { return c != '_'; });
    return {};
  }

  std::string_view text_;
  std::string_view what_;
  std::string_view rest_;
  std::size_t line_ = 0;
  std::vector<TomlTable> tables_;
  std::map<std::string, bool> tables_by_name_;  ///< Whether it is an element.
  std::set<std::string> keys_;                  ///< Of the last table.
};

}  // namespace

const TomlEntry* TomlTable::find(std::string_view key) const noexcept {
  const auto found = std::ranges::find(entries, key, &TomlEntry::key);
  return found == entries.end() ? nullptr : &*found;
}

Result<std::vector<TomlTable>> parse_toml(std::string_view text, std::string_view what) {
  if (text.size() > kTomlBytesMax)
    return Status(Code::invalid_argument, fmt::format("{}: larger than 1 MiB", what));
  if (!is_utf8(text)) return Status(Code::invalid_argument, fmt::format("{}: not UTF-8", what));
  return Reader(text, what).read();
}

}  // namespace stoker::plan
