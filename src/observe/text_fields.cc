#include "observe/text_fields.h"

#include <algorithm>
#include <charconv>

namespace stoker {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";

template <typename T, typename... Format>
std::optional<T> parse_whole(std::string_view text, Format... format) {
  T value{};
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, format...);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string_view trim(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::optional<std::uint64_t> parse_count(std::string_view text) {
  text = trim(text);
  if (text.starts_with("0x")) return parse_whole<std::uint64_t>(text.substr(2), 16);
  return parse_whole<std::uint64_t>(text, 10);
}

std::optional<double> parse_decimal(std::string_view text) {
  return parse_whole<double>(trim(text), std::chars_format::fixed);
}

std::vector<std::string_view> split_words(std::string_view text) {
  std::vector<std::string_view> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(kBlanks, at)) != std::string_view::npos;) {
    const std::size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const std::size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

std::optional<std::string_view> find_field(std::string_view text, std::string_view key) {
  for (const std::string_view line : split(text, '\n'))
    if (line.starts_with(key)) return trim(line.substr(key.size()));
  return std::nullopt;
}

std::string_view marked_choice(std::string_view choices) {
  const std::size_t open = choices.find('[');
  const std::size_t close = choices.find(']', open);
  if (open == std::string_view::npos || close == std::string_view::npos) return trim(choices);
  return choices.substr(open + 1, close - open - 1);
}

bool is_plain_name(std::string_view name) {
  return !name.empty() && name.size() < 256 && name != "." && name != ".." &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

}  // namespace stoker
