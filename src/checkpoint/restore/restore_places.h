/// \file
/// Which checkpoints the ranks of a restore have, if nodes have private disks (manifest/places.h).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/restore/restore_choice.h"
#include "stoker/status.h"

namespace stoker {

/// A valid checkpoint of one rank.
struct HeldCheckpoint {
  std::string name;
  std::uint64_t generation = 0;
  std::string line;
};

/// What the directory of one rank has.
struct HeldCheckpoints {
  std::string host;                         ///< For messages.
  std::vector<HeldCheckpoint> checkpoints;  ///< Newest first.
  /// Name of the one that `latest` leads to, if it is valid. It was in every place once.
  std::string latest = {};
  std::vector<std::string> damaged = {};  ///< Names of what cannot be read.
};

/// Lists the store; one that does not exist has nothing. The error is that of a checkpoint that
/// cannot be read for another reason than damage, and may be the newest.
Result<HeldCheckpoints> list_held(const std::function<Result<StoreHandle>()>& open);

/// The text of a message, and the inverse: `corrupt` for any other text.
std::string format_held(const HeldCheckpoints& held);
Result<HeldCheckpoints> parse_held(std::string_view text);

/// Returns the name of a checkpoint on one rank; empty if it has none. A superseded one may have
/// another name there.
std::string name_of(const HeldCheckpoints& held, std::uint64_t generation, std::string_view line);

/// `corrupt`, naming a rank that lacks it, unless all ranks have the checkpoint of rank 0.
Status check_common(std::span<const HeldCheckpoints> ranks, const CatalogStep& step);

/// `corrupt`, naming a rank that lacks it, if `latest` of some rank leads to a checkpoint that is
/// newer than all that every rank has: a node has come back with another disk, and to continue from
/// an older checkpoint would lose an acknowledged one. One that is damaged on a rank does not
/// count, nor does anything if no checkpoint is common.
Status check_acknowledged(std::span<const HeldCheckpoints> ranks, const std::string& path);

/// Adds to `choice` the newer checkpoints that rank 0 lacks. `corrupt` if nothing was chosen, but
/// some rank has checkpoints, even damaged ones: the run must not start over unnoticed.
Result<RestoreChoice> tell_partial(std::span<const HeldCheckpoints> ranks, const std::string& path,
                                   RestoreChoice choice);

}  // namespace stoker
