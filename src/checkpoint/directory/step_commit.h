/// \file
/// The renames of a commit. All of them pass the fence (owner_directory.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/directory/owner_directory.h"

namespace stoker {

/// Returns the name of a staging directory in its owner's directory: "x" for "owner-<token>/x".
std::string name_in_owner(std::string_view staging);

/// Points `latest` to `name`: stages a link in the owner's directory, renames it over `latest`,
/// then calls fsync. Crash points: checkpoint.latest_staged, .latest_moved, .latest_synced.
Status move_latest(const OwnerDirectory& owner, const std::string& name);

/// Renames the checkpoint that has the step's name to that of a superseded one, with a number if
/// that name is taken: nothing is overwritten, and no checkpoint is removed. `generation` is that
/// of the checkpoint, 0 if unknown. If `latest` points to it, `latest` follows; if the filesystem
/// has hard links, it points to a complete checkpoint at all times. Crash points:
/// checkpoint.superseded, .kept, .freed.
Status supersede(const OwnerDirectory& owner, std::uint64_t step, std::uint64_t generation);

}  // namespace stoker
