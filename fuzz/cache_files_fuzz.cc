// Any bytes as the head of a chunk file, as the file of an announced order, and as a chunk's name.
// What is accepted must have a meaning within bounds, and be written as it was read.
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string_view>

#include "dataset/shard_cache/chunk_file.h"
#include "dataset/shard_cache/chunk_id.h"
#include "dataset/shard_cache/order_file.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

void read_head(std::span<const std::byte> bytes) {
  const Result<ChunkHead> head = parse_chunk_head(bytes);
  if (!head.ok()) return;
  const ChunkId& id = head->id;
  require(id.size_bytes >= 1 && id.size_bytes <= ChunkId::kSizeMax);
  require(id.offset_bytes + id.size_bytes > id.offset_bytes);
  require(head->block_crc.size() * kChunkBlockBytes >= id.size_bytes);
  require(head->identity.size() <= kChunkHeadBytes);
  require(parse_chunk_name(chunk_name(id)) == id);
}

void read_order(std::span<const std::byte> bytes) {
  const Result<OrderPlace> place = parse_order_place(bytes);
  if (!place.ok()) return;
  require(place->rank < place->world_size);
  require(place->cursor.global_batch_size % place->world_size == 0);
  const Result<OrderPlace> again = parse_order_place(format_order_place(*place));
  require(again.ok() && again->cursor == place->cursor && again->rank == place->rank);
}

void read_name(std::string_view name) {
  const std::optional<ChunkId> id = parse_chunk_name(name);
  if (id) require(chunk_name(*id) == name);
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  stoker::read_head(bytes);
  stoker::read_order(bytes);
  stoker::read_name(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
