#include "formats/utf8.h"

namespace stoker {

Utf8Character decode_utf8(std::string_view text) noexcept {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {.size_bytes = 1, .code = lead, .is_valid = true};
  const std::size_t size = lead >= 0xC2 && lead <= 0xDF   ? 2
                           : lead >= 0xE0 && lead <= 0xEF ? 3
                           : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                          : 1;
  if (size == 1) return {.size_bytes = 1};
  // The second byte alone reveals overlong forms, surrogates and codes above U+10FFFF.
  unsigned least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t code = lead & (0x7FU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if (i == text.size() || at(i) < least || at(i) > most) return {.size_bytes = i};
    code = code << 6 | (at(i) & 0x3FU);
    least = 0x80;
    most = 0xBF;
  }
  return {.size_bytes = size, .code = code, .is_valid = true};
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const Utf8Character character = decode_utf8(text);
    if (!character.is_valid) return false;
    text.remove_prefix(character.size_bytes);
  }
  return true;
}

bool is_utf8(std::span<const std::byte> bytes) noexcept {
  return is_utf8(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

}  // namespace stoker
