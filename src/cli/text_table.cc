#include "cli/text_table.h"

#include <fmt/format.h>

#include <algorithm>

namespace stoker::cli {

TextTable::TextTable(const std::vector<std::string>& titles) {
  std::vector<std::string> row;
  for (const std::string& title : titles) {
    is_right_.push_back(title.starts_with('>'));
    row.push_back(is_right_.back() ? title.substr(1) : title);
  }
  rows_.push_back(std::move(row));
}

std::string TextTable::render() const {
  std::vector<std::size_t> widths(is_right_.size(), 0);
  for (const std::vector<std::string>& row : rows_) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) {
      if (i != 0) line += "  ";
      line += is_right_[i] ? fmt::format("{:>{}}", row[i], widths[i])
                           : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace stoker::cli
