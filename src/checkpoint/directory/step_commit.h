/// \file
/// The changes of names that a commit is made of. All of them pass the fence (owner_directory.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/directory/owner_directory.h"

namespace stoker {

/// The name that what was staged has in the owner's directory: "owner-<token>/x" is "x".
std::string name_in_owner(std::string_view staging);

/// Makes `latest` lead to `name`: a link staged in the owner's directory, renamed over it, then
/// fsync. Crash points: checkpoint.latest_staged, .latest_moved, .latest_synced.
Status move_latest(const OwnerDirectory& owner, const std::string& name);

/// Gives the checkpoint that bears the step's name the name of a superseded one, with a number if
/// another has that already: nothing is overwritten, and no checkpoint removed. `generation` is 0
/// if nobody knows it. `latest`, if it leads to it, follows and leads to a whole checkpoint at any
/// time, where the filesystem has hard links. Crash points: checkpoint.superseded, .kept, .freed.
Status supersede(const OwnerDirectory& owner, std::uint64_t step, std::uint64_t generation);

}  // namespace stoker
