#include "cli/line_text.h"

#include <algorithm>

#include "formats/json/json.h"

namespace stoker::cli {
namespace {

/// Returns the size of the first UTF-8 character; 0 if it is invalid.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size == 0 || first > 0xf4 || text.size() < size) return 0;
  for (const char c : text.substr(1, size - 1))
    if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80) return 0;
  return size;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // In UTF-8, the control characters U+0080 to U+009F are 0xc2 and their code.
    const bool is_control = size == 1 ? first < 0x20 || first == 0x7f
                                      : first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (size == 0 || is_control)
      safe += '?';
    else
      safe += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return safe;
}

std::string to_line(const Json& value) {
  return value.dump();
}

}  // namespace stoker::cli
