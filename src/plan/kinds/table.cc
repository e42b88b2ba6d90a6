#include "plan/kinds/table.h"

#include <algorithm>

namespace stoker::plan {

const std::vector<const Kind*>& kinds() {
  static const std::vector<const Kind*> all = {
      &read_kind(),    &checkpoint_kind(), &interval_kind(), &endurance_kind(), &cliff_kind(),
      &targets_kind(), &stall_kind(),      &cluster_kind(),  &epoch_kind(),     &raid_kind(),
      &share_kind(),   &path_kind(),       &objects_kind(),  &iops_kind(),      &prefetch_kind(),
      &rule_kind(),    &tracking_kind()};
  return all;
}

const Kind* find_kind(std::string_view name) {
  const auto found =
      std::ranges::find_if(kinds(), [name](const Kind* kind) { return kind->name == name; });
  return found == kinds().end() ? nullptr : *found;
}

}  // namespace stoker::plan
