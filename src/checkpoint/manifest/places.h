/// \file
/// Checkpoints of nodes with private disks, where one path names another directory on each node.
///
/// A *place* is such a directory, with the ranks that use it. The first rank of each place leads
/// it: it holds the writer's lock there, commits, and retires. Rank 0 decides for all: which ranks
/// form a place, the generation, the manifest, and what retention keeps.
///
/// Every place gets the same manifest, and the files of its own ranks. The manifest says which file
/// is in which place; an empty file `place-<number>` beside it says which place a directory is. If
/// the directories of one checkpoint are copied together, they have all files and all these names:
/// an ordinary checkpoint.
///
/// A tensor that several ranks have is stored once in each place that has it: once in `tensors`,
/// and for every other place in `duplicates`. So each rank finds what it has saved on its own disk.
///
/// A checkpoint counts if it is in every place. Saves therefore commit in three rounds: all places
/// have sealed it; all have published it durably; only then does `latest` move and the save count
/// (save/place_rounds.h). A restore takes the greatest generation that all places have.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "stoker/status.h"

namespace stoker {

/// `corrupt`, naming `what`, unless every rank is in one place, every file in an existing one, and
/// every duplicate is a tensor of the manifest again, with the same digest, in another place.
Status check_places(const CheckpointManifest& manifest, std::string_view what);

/// Sets CheckpointFile::is_elsewhere, given the names of all files in the checkpoint's directory,
/// and has tensors refer to their copies there. `corrupt`, naming `what`, if no name says which
/// place the directory is, or one says a place that the manifest does not have.
Status find_places(CheckpointManifest& manifest, std::span<const std::string> names,
                   std::string_view what);

/// Describes where a file is, for messages: on the disk of "node7" (ranks 2, 3).
std::string place_text(const CheckpointManifest& manifest, const CheckpointFile& file);

}  // namespace stoker
