/// \file
/// The trees that the ranks of a run have saved, as one rank of this run gets them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/restore/reader.h"
#include "stoker/status.h"
#include "stoker/tree.h"

namespace stoker::internal {

/// Marks a place where the saved values of the ranks differ, and this run has another number of
/// ranks.
inline constexpr std::string_view kDiffersTag = "!differs";

/// Returns the trees of one rank by name. The views have the stored names, and types and shapes of
/// whole tensors; those of parts that are stored nowhere have neither.
Result<Tree> trees_of_rank(const CheckpointReader& reader, std::uint32_t rank);

/// Returns the trees by name that rank `rank` of `world_size` restores: what it has saved, if the
/// number of ranks is the same; otherwise what is equal on all ranks, and kDiffersTag where nothing
/// is. Names of a module's state (`!ordered_dict`) that only some ranks have belong to all.
Result<Tree> saved_trees(const CheckpointReader& reader, std::uint32_t rank,
                         std::uint32_t world_size);

}  // namespace stoker::internal
