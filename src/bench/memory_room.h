#pragma once

#include <cstdint>

namespace stoker {

/// Returns the kernel's estimate of the memory that new work can have, page cache included;
/// UINT64_MAX if it gives none.
std::uint64_t available_memory_bytes();

}  // namespace stoker
