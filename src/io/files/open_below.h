/// \file
/// open(2) below a directory: what is found is in it, and no symbolic link was followed.
#pragma once

#include <string_view>

#include "base/unique_fd.h"
#include "stoker/status.h"

namespace stoker {

/// How names below a directory are looked up.
enum class LookupBelow : std::uint8_t {
  automatic,      ///< openat2, or component by component where the kernel refuses it: found once.
  by_components,  ///< For tests.
};

/// Whether a mount point may be on the way. Whoever removes stays where it is: what is mounted
/// below a directory is not part of it.
enum class Mounts : std::uint8_t { cross, stay };

/// openat2(2) with RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS; or each component with O_NOFOLLOW,
/// where the call is missing or a sandbox forbids it. `name` has components, separated by single
/// "/", none of them "." or ".."; an empty one is the directory itself. ELOOP for a symbolic link,
/// EXDEV for what is mounted there and must not be entered. Status without a path: the caller knows
/// it.
Result<UniqueFd> open_below(int root_fd, std::string_view name, int flags,
                            LookupBelow lookup = LookupBelow::automatic,
                            Mounts mounts = Mounts::cross);

}  // namespace stoker
