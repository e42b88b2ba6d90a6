#pragma once

#include <string>
#include <utility>
#include <vector>

#include "stoker/tree.h"

namespace stoker {

/// The tags of a tree's values (tree_json.h).
class TreeAccess {
 public:
  static const std::vector<std::string>& tags(const Tree& tree) noexcept { return tree.tags_; }
  static void set_tags(Tree& tree, std::vector<std::string> tags) { tree.tags_ = std::move(tags); }
  /// Appends a field that the map does not have.
  static void add(Tree& map, std::string name, Tree value) {
    std::get<Tree::Fields>(map.value_).push_back({std::move(name), std::move(value)});
  }
};

}  // namespace stoker
