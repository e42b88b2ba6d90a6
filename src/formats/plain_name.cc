#include "formats/plain_name.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace stoker {
namespace {

constexpr std::size_t kNameBytesMax = 255;

}  // namespace

bool is_utf8(std::string_view text) {
  try {
    return !nlohmann::json(std::string(text)).dump().empty();
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

bool is_plain_file_name(std::string_view name) {
  const auto is_bad = [](char c) {
    return c == '/' || static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
  };
  return !name.empty() && name.size() <= kNameBytesMax && name != "." && name != ".." &&
         std::none_of(name.begin(), name.end(), is_bad) && is_utf8(name);
}

}  // namespace stoker
