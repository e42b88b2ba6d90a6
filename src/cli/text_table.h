#pragma once

#include <string>
#include <vector>

namespace stoker::cli {

/// A table for people, with columns as wide as their widest cell. A title that begins with '>'
/// aligns its column to the right. Lines have no trailing spaces.
///
/// Thread safety: none.
class TextTable {
 public:
  explicit TextTable(const std::vector<std::string>& titles);

  /// Adds a row with as many cells as there are titles.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const noexcept { return rows_.size() == 1; }

  /// Returns all rows, titles first, each with a line break.
  std::string render() const;

 private:
  std::vector<bool> is_right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stoker::cli
