#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace stoker::cli {

/// One line about a part of a checkpoint's state.
struct StateLine {
  std::string path;  ///< "optimizer"; empty for the whole state.
  std::string what;  ///< "dict of 2: 3 tensors, 1 other value"
};

/// Summarizes the state tree of a rank: one line per top-level member, or one for the whole if it
/// is not a dict. For invalid JSON, one line that says so. Pure.
std::vector<StateLine> summarize_state(std::string_view tree_json);

}  // namespace stoker::cli
