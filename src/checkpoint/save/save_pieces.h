/// \file
/// The steps of a save that have to do with tensors that several ranks have (sharing.h).
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "checkpoint/save/save_job.h"
#include "checkpoint/save/save_messages.h"
#include "checkpoint/save/sharing.h"
#include "checkpoint/staging/tensor_copier.h"

namespace stoker {

// For `late` see TensorCopier::digests().

/// Hashes all tensors of a save, once.
Status count_pieces(SaveJob& job, TensorCopier& copier, CopyRest& late);
/// Returns what the other ranks must know about tensors that were counted.
std::vector<SharedPiece> pieces_of(const SaveJob& job);

/// What rank 0 decides. Neither: the earlier decision remains in force.
struct SharingVerdict {
  bool must_count = false;  ///< Some rank has not sent its pieces.
  std::optional<PieceOwners> owners = {};
};
SharingVerdict decide_sharing(std::span<const BeginMessage> messages,
                              std::span<const std::uint32_t> places);

/// Hashes what other ranks store, before the caller may change it.
Status hash_copies(SaveJob& job, TensorCopier& copier, CopyRest& late);

}  // namespace stoker
