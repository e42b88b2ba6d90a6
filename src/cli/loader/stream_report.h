/// \file
/// The final report of `stoker stream`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "cli/loader/loader_arguments.h"

namespace stoker::cli {

enum class StreamEnd : std::uint8_t { complete, max_batches, interrupted };

struct StreamReport {
  StreamEnd end = StreamEnd::complete;
  LoaderStats stats = {};
  std::optional<std::uint64_t> batch_count = {};  ///< Batches in the run; nothing: no end.
  std::optional<CacheStats> cache = {};           ///< If samples are read through a cache.
  Cursor cursor = {};                             ///< Current position of the run.
};

/// Returns the share of the bytes that were in the page cache already; 0 if none were read.
double page_cache_share(const FetchCounters& fetch) noexcept;

/// Returns samples per second, rounded down; 0 if no time has passed.
std::uint64_t samples_per_second(const LoaderStats& stats) noexcept;

/// Returns several lines, each with a line break.
std::string render_stream_text(const PlannedRun& plan, const StreamReport& report);
/// Returns one object on one line.
std::string render_stream_json(const PlannedRun& plan, const StreamReport& report);

}  // namespace stoker::cli
