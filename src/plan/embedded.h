/// \file
/// Texts that are part of the program, so that no installation can be without them.
#pragma once

#include <string_view>

namespace stoker::plan {

/// Returns workload.toml: what `stoker plan cluster --example` prints.
std::string_view example_workload() noexcept;

}  // namespace stoker::plan
