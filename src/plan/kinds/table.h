/// \file
/// Every kind of plan.
#pragma once

#include <string_view>
#include <vector>

#include "plan/kind.h"

namespace stoker::plan {

/// Each is in <name>.cc, with the public function of that name.
const Kind& read_kind();
const Kind& epoch_kind();
const Kind& checkpoint_kind();
const Kind& interval_kind();
const Kind& endurance_kind();
const Kind& cliff_kind();
const Kind& raid_kind();
const Kind& targets_kind();
const Kind& share_kind();
const Kind& stall_kind();
const Kind& rule_kind();
const Kind& prefetch_kind();
const Kind& objects_kind();
const Kind& path_kind();
const Kind& iops_kind();
const Kind& tracking_kind();
const Kind& cluster_kind();

/// All of them, in the order of the help.
const std::vector<const Kind*>& kinds();
/// Returns nullptr if there is none of that name.
const Kind* find_kind(std::string_view name);

}  // namespace stoker::plan
