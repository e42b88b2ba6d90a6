#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::cli {

/// One line about a part of a checkpoint's state.
struct StateLine {
  std::string path;  ///< "optimizer"; empty for the whole.
  std::string what;  ///< "dict of 2: 3 tensors, 1 other value"
};

/// The state tree of a rank in few words: a line for each of its first members, or one for the
/// whole if it is no dict. Text that is no JSON gives one line that says so. Pure.
std::vector<StateLine> summarize_state(std::string_view tree_json);

}  // namespace stoker::cli
