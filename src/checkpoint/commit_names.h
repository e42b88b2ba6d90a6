/// \file
/// The changes of names that a commit is made of.
#pragma once

#include <cstdint>
#include <string>

#include "io/file_ops.h"

namespace stoker {

/// The directories a commit works in.
struct CommitPlaces {
  FileOps& ops;
  std::string directory;  ///< The checkpoints'.
  std::string owner;      ///< The lock holder's, in it: the fence.
};

/// renameat2 with RENAME_NOREPLACE, or the next best where a filesystem refuses the flag.
Status rename_without_replacing(FileOps& ops, const std::string& from, const std::string& to);

/// Makes a rename from one of the two directories to the other durable: it is in both.
Status fsync_places(const CommitPlaces& places);

/// Makes `latest` lead to `name`: a temporary link, renamed over it, then fsync. Crash points:
/// checkpoint.latest_staged, .latest_moved, .latest_synced.
Status move_latest(const CommitPlaces& places, const std::string& name);

/// Gives the checkpoint that bears the step's name the name of a superseded one, with a number if
/// another has that already: nothing is overwritten or removed. `generation` is 0 if nobody knows
/// it. `latest`, if it leads to it, goes with it and leads to a whole checkpoint at any time, where
/// the filesystem has hard links. Crash point: checkpoint.superseded.
Status supersede(const CommitPlaces& places, std::uint64_t step, std::uint64_t generation);

}  // namespace stoker
