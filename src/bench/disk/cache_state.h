#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <string_view>

#include "io/engine/buffer_pool.h"
#include "stoker/status.h"

namespace stoker {

/// What the page cache held of a file when a measurement began, as residency() proved it.
enum class CacheState : std::uint8_t {
  cold,           ///< Less than 1 % resident.
  warm,           ///< More than 99 % resident.
  not_applicable  ///< Neither, or nothing is read.
};

std::string_view cache_state_name(CacheState state) noexcept;

struct CacheCheck {
  CacheState state = CacheState::not_applicable;
  double resident_share = 0;
  std::string note = {};  ///< Why it is not as wished; empty when it is.
};

/// Evicts the file and looks whether that worked: on tmpfs, for one, it never does.
Result<CacheCheck> make_cold(int fd);

/// Reads the first `range_bytes` once and looks whether they stayed.
Result<CacheCheck> make_warm(int fd, std::uint64_t range_bytes, BufferPool& pool,
                             const std::stop_token& stop);

}  // namespace stoker
