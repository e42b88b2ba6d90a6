#pragma once

#include <CLI/CLI.hpp>
#include <cstddef>
#include <string>
#include <string_view>

namespace stoker::cli {

inline constexpr std::size_t kHelpColumns = 80;

/// Wraps the paragraphs of `text` at `columns`. A paragraph ends at an empty line and before an
/// indented one. Indented lines are kept unchanged, because examples are copied from there.
std::string fill_text(std::string_view text, std::size_t columns);

/// CLI11's help in kHelpColumns.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_description(const CLI::App* app) const override;
  std::string make_footer(const CLI::App* app) const override;
  std::string make_subcommand(const CLI::App* sub) const override;
  std::string make_option_desc(const CLI::Option* option) const override;

 private:
  std::size_t right_columns() const { return kHelpColumns - get_column_width(); }
};

}  // namespace stoker::cli
