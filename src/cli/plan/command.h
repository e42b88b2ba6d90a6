/// \file
/// Shared by the subcommands of `stoker plan`.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "plan/kind.h"

namespace stoker::cli {

/// Adds the subcommand of one kind: an option for each of its fields.
void add_plan_kind_command(Command& parent, Context& context, const plan::Kind& kind);
void add_plan_devices_command(Command& parent, Context& context);

/// Returns the text of a file that an option or an argument names; empty if none is named. An error
/// begins with `option`.
Result<std::string> read_named_file(std::string_view option,
                                    const std::optional<std::string>& path);

}  // namespace stoker::cli
