/// \file
/// What becomes of rows of tokens once they are read: wider elements, padding, and which document
/// each token is of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataset/tokens/token_bins.h"
#include "formats/dtype.h"

namespace stoker::internal {

/// Turns the `count` elements of `dtype` at the end of `room` into as many int64 at its begin.
/// Those of 64 bits fill the room, and stay.
void widen_tokens(Dtype dtype, std::span<std::byte> room, std::size_t count);

/// One row of a batch of packs, as it is given out.
struct PackRow {
  std::span<std::byte> tokens;           ///< Read, and widened where that is wanted.
  std::span<std::int32_t> position_ids;  ///< As many as tokens.
  std::span<std::int32_t> document_ids;
};

/// Fills the row behind its pieces with `pad`, the bytes of one element, and says for every token
/// how far it is from the begin of its piece, and which piece that is; what was filled is a piece
/// too, of the number -1. `stored_bytes`: of a token in the shard. Returns how many tokens are
/// real.
std::uint64_t finish_pack_row(std::span<const PackPiece> pieces, std::size_t stored_bytes,
                              std::span<const std::byte> pad, const PackRow& row);

}  // namespace stoker::internal
