#include "base/hex.h"

#include <fmt/format.h>

namespace stoker {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";

/// Returns -1 for any other character.
int digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

std::string format_hex(std::span<const std::byte> bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<std::size_t>(byte >> 4)];
    text += kDigits[std::to_integer<std::size_t>(byte & std::byte{15})];
  }
  return text;
}

Status parse_hex(std::string_view text, std::span<std::byte> out) {
  if (text.size() != out.size() * 2) {
    return Status(Code::invalid_argument,
                  fmt::format("hex text has {} characters, not {}", text.size(), out.size() * 2));
  }
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int digit = digit_of(text[i]);
    if (digit < 0) {
      return Status(Code::invalid_argument,
                    fmt::format("hex text has a character other than 0-9 and a-f at {}", i));
    }
    std::byte& byte = out[i / 2];
    byte = (i % 2 == 0 ? std::byte{0} : byte << 4) | static_cast<std::byte>(digit);
  }
  return {};
}

}  // namespace stoker
