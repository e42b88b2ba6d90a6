/// \file
/// The stages of a batch, and when it entered each.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/clock.h"

namespace stoker {

/// The stage that a batch is in. The caller's wait for a batch is attributed to the stages that the
/// batch was in during the wait.
enum class LoaderStage : std::uint8_t {
  queue,    ///< Not started, because all threads are busy with earlier batches; or being planned.
  memory,   ///< Waiting for memory that earlier batches, or those the caller holds, use.
  read,     ///< Being read; for compressed shards also decompressed.
  decode,   ///< Being split into fields and converted.
  collate,  ///< Being assembled and handed over.
};
inline constexpr std::size_t kLoaderStages = 5;

/// "queue", "memory", "read", "decode", "collate".
std::string_view loader_stage_name(LoaderStage stage) noexcept;

/// When a batch entered each stage. Stages follow the order of the enum; the first has no start
/// time.
struct StageTimes {
  void enter(LoaderStage stage, Deadline now = Clock::now()) noexcept {
    began[static_cast<std::size_t>(stage)] = now;
  }
  std::array<Deadline, kLoaderStages> began{};
};

}  // namespace stoker
