/// \file
/// The stages of a batch, and when it entered each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "stoker/loader_stats.h"

namespace stoker {

/// When a batch entered each stage. Stages follow the order of the enum; the first has no start
/// time.
struct StageTimes {
  void enter(LoaderStage stage, Deadline now = Clock::now()) noexcept {
    began[static_cast<std::size_t>(stage)] = now;
  }
  std::array<Deadline, kLoaderStages> began{};
};

}  // namespace stoker
