#include "formats/plain_name.h"

#include <algorithm>

#include "formats/utf8.h"

namespace stoker {
namespace {

constexpr std::size_t kNameBytesMax = 255;

}  // namespace

bool is_plain_file_name(std::string_view name) {
  const auto is_bad = [](char c) {
    return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  };
  return !name.empty() && name.size() <= kNameBytesMax && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), is_bad) && is_utf8(name);
}

}  // namespace stoker
