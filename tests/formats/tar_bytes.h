/// \file
/// Tar headers by hand, right or wrong in one place, for tests.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace stoker::testing {

/// The fields of one header, as its bytes. Numbers are given as text so that they can be wrong.
struct TarBlock {
  std::string name = "a.txt";
  std::string size = "00000000000";
  char type = '0';
  std::string magic = std::string("ustar\00000", 8);
  std::string prefix = {};
  std::string uid = "0000000";

  std::string bytes() const {
    std::string block(512, '\0');
    block.replace(0, name.size(), name);
    block.replace(100, 7, "0000644");
    block.replace(108, uid.size(), uid);
    block.replace(116, 7, "0000000");
    block.replace(124, size.size(), size);
    block.replace(136, 11, "00000000000");
    block[156] = type;
    block.replace(257, magic.size(), magic);
    block.replace(345, prefix.size(), prefix);
    return with_checksum(std::move(block));
  }

  static std::string with_checksum(std::string block, bool as_signed = false) {
    block.replace(148, 8, "        ");
    int sum = 0;
    for (const char c : block)
      sum += as_signed ? static_cast<signed char>(c) : static_cast<unsigned char>(c);
    block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    return block;
  }
};

inline std::string tar_octal(std::size_t value) {
  return fmt::format("{:011o}", value);
}

inline std::string tar_pad(std::string data) {
  data.resize((data.size() + 511) / 512 * 512);
  return data;
}

/// A whole member: header and data.
inline std::string tar_member(const std::string& name, const std::string& data, char type = '0') {
  return TarBlock{.name = name, .size = tar_octal(data.size()), .type = type}.bytes() +
         tar_pad(data);
}

inline std::string tar_end() {
  return std::string(1024, '\0');
}

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace stoker::testing
