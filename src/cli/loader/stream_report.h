/// \file
/// What `stoker stream` says at its end.
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
  std::optional<std::uint64_t> batch_count = {};  ///< That there were to stream; nothing: no end.
  Cursor cursor = {};                             ///< Where the run stands now.
};

/// The share of the bytes that were in the page cache already; 0 if none were read.
double page_cache_share(const FetchCounters& fetch) noexcept;

/// Samples in a second, rounded down; 0 if no time has passed.
std::uint64_t samples_per_second(const LoaderStats& stats) noexcept;

/// Some lines, each with its end.
std::string render_stream_text(const PlannedRun& plan, const StreamReport& report);
/// One object on one line.
std::string render_stream_json(const PlannedRun& plan, const StreamReport& report);

}  // namespace stoker::cli
