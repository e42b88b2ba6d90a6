#pragma once

#include <cstddef>
#include <functional>
#include <string_view>

namespace stoker {

/// Whether a slow check of this input is due: for one of `count` inputs, always for the same ones.
inline bool is_one_of(std::size_t count, std::string_view input) {
  return std::hash<std::string_view>()(input) % count == 0;
}

}  // namespace stoker
