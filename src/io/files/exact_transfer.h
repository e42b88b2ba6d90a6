/// \file
/// Plain reads and writes that transfer all bytes or fail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// Fills `out` from `offset_bytes` on. `corrupt` if the file ends early. Messages name `path`.
Status read_exactly(int fd, std::uint64_t offset_bytes, std::span<std::byte> out,
                    std::string_view path);

/// Writes all of `data` from `offset_bytes` on.
Status write_exactly(FileOps& ops, int fd, std::uint64_t offset_bytes,
                     std::span<const std::byte> data);

}  // namespace stoker
