/// \file
/// UTF-8 text: no overlong forms, no surrogates, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace stoker {

/// The first character of a text.
struct Utf8Character {
  /// Size of the character. If it is invalid: of the bytes that one U+FFFD replaces.
  std::size_t size_bytes = 0;
  char32_t code = 0;
  bool is_valid = false;
};

/// Decodes the first character. `text` must not be empty.
Utf8Character decode_utf8(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;
bool is_utf8(std::span<const std::byte> bytes) noexcept;

}  // namespace stoker
