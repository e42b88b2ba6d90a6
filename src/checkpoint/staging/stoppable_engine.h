/// \file
/// Engines that fail after a stop request, for saves and copies that take no stop token.
#pragma once

#include <cerrno>
#include <cstdint>
#include <stop_token>
#include <utility>

#include "io/engine/engine_factory.h"

namespace stoker {

/// For a CheckpointSaver: once `stop` fires every transfer fails, so that the save fails, cleans up
/// and commits nothing.
inline EngineFactory make_stoppable_writes(std::stop_token stop,
                                           EngineKind kind = EngineKind::automatic) {
  constexpr std::uint32_t kDepth = 8;
  return [stop = std::move(stop), kind] {
    return make_engine(kind, {.depth = kDepth, .tamper = [stop](const Request&, std::int64_t raw) {
                                return stop.stop_requested() ? std::int64_t{-ECANCELED} : raw;
                              }});
  };
}

/// For a CheckpointReader that reads in pieces: `cancelled` from the first piece after `stop` has
/// fired. A piece is a few chunks, too little to set up an io_uring: `automatic` means `sync`.
inline EngineFactory make_stoppable_reads(std::stop_token stop,
                                          EngineKind kind = EngineKind::automatic) {
  return [stop = std::move(stop), kind]() -> Result<std::unique_ptr<Engine>> {
    if (stop.stop_requested()) return Status(Code::cancelled, "interrupted");
    return make_engine(kind == EngineKind::automatic ? EngineKind::sync : kind, {.depth = 4});
  };
}

}  // namespace stoker
