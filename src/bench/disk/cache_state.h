#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "io/engine/buffer_pool.h"
#include "stoker/status.h"

namespace stoker {

/// How much of a file was in the page cache when a measurement started, according to residency().
enum class CacheState : std::uint8_t {
  cold,           ///< Less than 1 % resident.
  warm,           ///< More than 99 % resident.
  not_applicable  ///< Neither, or nothing is read.
};

std::string_view cache_state_name(CacheState state) noexcept;

struct CacheCheck {
  CacheState state = CacheState::not_applicable;
  double resident_share = 0;
  std::string note = {};  ///< Why the state is not the requested one; empty if it is.
};

/// Evicts the file and checks whether that worked; on tmpfs, for example, it never does.
Result<CacheCheck> make_cold(int fd);

/// Reads the first `range_bytes` once and checks whether they stayed in the page cache.
Result<CacheCheck> make_warm(int fd, std::uint64_t range_bytes, BufferPool& pool,
                             const std::stop_token& stop);

}  // namespace stoker
