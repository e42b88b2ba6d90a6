#pragma once

#include <string>
#include <vector>

namespace stoker::cli {

/// Columns as wide as their widest cell, for people. A title that begins with '>' aligns its column
/// to the right; the last column is never padded.
///
/// Thread safety: none.
class TextTable {
 public:
  explicit TextTable(const std::vector<std::string>& titles);

  /// As many cells as there are titles.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const noexcept { return rows_.size() == 1; }

  /// All rows, the titles first, each ending with a line break.
  std::string render() const;

 private:
  std::vector<bool> is_right_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace stoker::cli
