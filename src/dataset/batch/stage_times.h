/// \file
/// The stages of a batch, and when it entered each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace stoker {

/// Where a batch is on its way. The caller's wait for a batch is attributed to the stages in which
/// the batch was meanwhile.
enum class LoaderStage : std::uint8_t {
  queue,    ///< No thread had begun it, for all were busy with batches before it; or planned.
  memory,   ///< Waiting for memory: batches before it, or those that the caller holds, have it.
  read,     ///< Read; of compressed shards, inflated.
  decode,   ///< Split into fields and converted.
  collate,  ///< Made one array, handed over.
};
inline constexpr std::size_t kLoaderStages = 5;

/// "queue", "memory", "read", "decode", "collate".
std::string_view loader_stage_name(LoaderStage stage) noexcept;

/// When a batch entered each stage. Stages follow in the order of the enum; the first has no begin.
struct StageTimes {
  void enter(LoaderStage stage, Deadline now = Clock::now()) noexcept {
    began[static_cast<std::size_t>(stage)] = now;
  }
  std::array<Deadline, kLoaderStages> began{};
};

}  // namespace stoker
