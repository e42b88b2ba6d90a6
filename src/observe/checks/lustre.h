#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "observe/machine.h"
#include "observe/target.h"

namespace stoker {

/// The default layout of a directory, as `lfs getstripe -d` prints it.
struct LustreLayout {
  static constexpr std::int64_t kAllTargets = -1;
  std::int64_t stripe_count = 1;  ///< Of the last component, which has the end of a large file.
  std::uint64_t stripe_bytes = 0;
  std::size_t component_count = 1;  ///< More than one means a progressive layout.
};

/// Returns nullopt if `text` has no stripe count.
std::optional<LustreLayout> parse_lustre_layout(std::string_view text);

/// One storage target: a line of `lfs df`.
struct LustreTarget {
  bool is_metadata = false;  ///< An MDT; otherwise an OST.
  std::uint64_t index = 0;
  std::uint64_t used_percent = 0;
};

std::vector<LustreTarget> parse_lustre_targets(std::string_view text);

/// Returns the command, as argv, that sets the layout of a Lustre directory for its role.
/// `invalid_argument` if the target is not a directory on Lustre.
Result<std::vector<std::string>> plan_set_stripe(Machine& machine, const Target& target);

/// Returns argv as one line for a shell, quoted.
std::string format_command(const std::vector<std::string>& argv);

}  // namespace stoker
