/// \file
/// open(2) below a directory: the file found is inside it, and no symbolic link was followed.
#pragma once

#include <string_view>

#include "base/unique_fd.h"
#include "stoker/status.h"

namespace stoker {

/// How names below a directory are looked up.
enum class LookupBelow : std::uint8_t {
  automatic,      ///< openat2(2), or by components if the kernel refuses it; probed once.
  by_components,  ///< For tests.
};

/// Whether a lookup may cross a mount point. Removal uses `stay`: a filesystem that is mounted
/// below a directory is not part of it.
enum class Mounts : std::uint8_t { cross, stay };

/// Opens `name` with openat2(2), RESOLVE_BENEATH and RESOLVE_NO_SYMLINKS; or each component with
/// O_NOFOLLOW, if the call is missing or a sandbox forbids it. `name` consists of components
/// separated by single "/", none of them "." or ".." (else EINVAL); an empty name is the directory
/// itself. Fails with ELOOP for a symbolic link, and with EXDEV for a mount point that must not be
/// crossed. The message has no path; the caller adds it.
Result<UniqueFd> open_below(int root_fd, std::string_view name, int flags,
                            LookupBelow lookup = LookupBelow::automatic,
                            Mounts mounts = Mounts::cross);

}  // namespace stoker
