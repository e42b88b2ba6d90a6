/// \file
/// Text in UTF-8: no overlong forms, no surrogates, nothing past U+10FFFF.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

namespace stoker {

/// What a text begins with.
struct Utf8Character {
  /// Of the character. If it is invalid, of the bytes that one U+FFFD replaces.
  std::size_t size_bytes = 0;
  char32_t code = 0;
  bool is_valid = false;
};

/// `text` must not be empty.
Utf8Character decode_utf8(std::string_view text) noexcept;

bool is_utf8(std::string_view text) noexcept;
bool is_utf8(std::span<const std::byte> bytes) noexcept;

}  // namespace stoker
