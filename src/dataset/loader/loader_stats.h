/// \file
/// How the figures of a loader are added up.
#pragma once

#include <array>

#include "base/clock.h"
#include "dataset/batch/stage_times.h"
#include "stoker/loader_stats.h"

namespace stoker {

/// Divides the wait [from, to) among the stages of the batch, given by `times`. The last stage
/// lasts until the caller has the batch, including the time to wake up.
std::array<nanoseconds, kLoaderStages> attribute_wait(const StageTimes& times, Deadline from,
                                                      Deadline to);

/// Adds the counters of another fetcher.
void add_counters(FetchCounters& sum, const FetchCounters& more) noexcept;

}  // namespace stoker
