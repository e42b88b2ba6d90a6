/// \file
/// Finishes rows of tokens after they are read: wider elements, padding, and the document of each
/// token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "dataset/tokens/token_bins.h"
#include "stoker/dtype.h"

namespace stoker::internal {

/// Converts the `count` elements of `dtype` at the end of `room` to int64 at its start, in place.
/// Elements of 64 bits are left as they are: they fill the room already.
void widen_tokens(Dtype dtype, std::span<std::byte> room, std::size_t count);

/// One row of a batch of packs.
struct BinRow {
  std::span<std::byte> tokens;           ///< Read, and widened if requested.
  std::span<std::int32_t> position_ids;  ///< As many as tokens.
  std::span<std::int32_t> document_ids;
};

/// Fills the row after its pieces with `pad`, the bytes of one element, and sets for every token
/// its distance from the start of its piece and the number of the piece; padding counts as a piece
/// with the number -1. `stored_bytes`: size of a token in the shard. Returns the number of tokens
/// without padding.
std::uint64_t finish_pack_row(std::span<const BinPiece> pieces, std::size_t stored_bytes,
                              std::span<const std::byte> pad, const BinRow& row);

}  // namespace stoker::internal
