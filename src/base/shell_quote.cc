#include "base/shell_quote.h"

namespace stoker {
namespace {

bool is_safe_in_shell(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("/._-+=:,@%").find(c) != std::string_view::npos;
}

}  // namespace

std::string shell_quote(std::string_view text) {
  bool safe = !text.empty();
  for (const char c : text) safe = safe && is_safe_in_shell(c);
  if (safe) return std::string(text);
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'')
      quoted += "'\\''";
    else
      quoted += c;
  }
  return quoted + "'";
}

}  // namespace stoker
