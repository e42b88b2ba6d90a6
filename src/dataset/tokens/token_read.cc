#include "dataset/tokens/token_read.h"

#include <cstring>
#include <string>
#include <vector>

#include "io/engine/buffer_pool.h"

namespace stoker::internal {
namespace {

/// Reads a part of a shard.
Status read_span(const ShardDataset& dataset, const TokenSpan& at, std::span<std::byte> out) {
  const std::uint64_t offset = at.range.offset_bytes;
  const std::string& path = dataset.source().shards()[at.shard].path;
  if (dataset.source().is_compressed(at.shard)) {
    STOKER_ASSIGN(const InflatedCache::Bytes plain, dataset.inflate_shard(at.shard));
    if (at.range.end_bytes() > plain->size())
      return Status(Code::corrupt, path + ": the tokens are outside their shard");
    std::memcpy(out.data(), plain->data() + offset, out.size());
    return {};
  }
  STOKER_ASSIGN(const std::shared_ptr<const Object> object, dataset.lend_shard(at.shard));
  STOKER_ASSIGN(BufferPool pool, BufferPool::make({.budget_bytes = BufferPool::size_class_bytes(
                                                       object->scratch_bytes(offset, out.size())),
                                                   .touch = false}));
  STOKER_ASSIGN(const Lease lease, pool.try_lease(object->scratch_bytes(offset, out.size())));
  STOKER_ASSIGN(const std::span<std::byte> bytes, object->read(offset, out.size(), lease.bytes()));
  if (bytes.size() != out.size()) return Status(Code::corrupt, path + ": ends inside the tokens");
  std::memcpy(out.data(), bytes.data(), out.size());
  return {};
}

}  // namespace

Status read_window(const ShardDataset& dataset, const TokenWindows& windows, std::uint64_t unit,
                   std::span<std::byte> out) {
  STOKER_ASSIGN(const TokenSpan at, windows.locate(unit));
  return read_span(dataset, at, out);
}

Result<std::uint64_t> read_pack(const ShardDataset& dataset, const TokenBins& packs,
                                std::uint64_t unit, const BinRow& row) {
  std::vector<BinPiece> pieces;
  STOKER_TRY(packs.locate(unit, pieces));
  for (const BinPiece& piece : pieces) {
    const std::span<std::byte> room = row.tokens.subspan(piece.at_bytes, piece.range.size_bytes);
    STOKER_TRY(read_span(dataset, {.shard = piece.shard, .range = piece.range}, room));
    if (!piece.crc32c) continue;
    const SampleLocation at{.shard = piece.shard, .record = piece.range, .crc32c = *piece.crc32c};
    STOKER_TRY(dataset.check_record(at, room).with_context(
        dataset.source().shards()[piece.shard].path + ": " + std::to_string(room.size()) +
        " bytes at byte " + std::to_string(piece.range.offset_bytes)));
  }
  const std::size_t token_bytes = dtype_size_bytes(packs.dtype());
  const std::vector<std::byte> zero(token_bytes);
  return finish_pack_row(pieces, token_bytes, zero, row);
}

}  // namespace stoker::internal
