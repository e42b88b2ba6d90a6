// Any bytes as the head of a chunk file, as the file of an announced order, and as a chunk's name;
// and as the first two with correct checksums, which a mutation would never find. What is accepted
// must have a meaning within bounds, and be written as it was read.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "dataset/shard_cache/chunk_file.h"
#include "dataset/shard_cache/chunk_id.h"
#include "dataset/shard_cache/order_file.h"
#include "stoker/cursor.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// Places of checksums, and of the cursor in the file of an order.
constexpr std::size_t kHeadCrcAt = 44;
constexpr std::size_t kCursorAt = 8;
constexpr std::size_t kCursorSumAt = kCursorAt + kCursorBytes - sizeof(std::uint64_t);
constexpr std::size_t kOrderCrcAt = 140;
constexpr std::size_t kOrderBytes = 144;

std::vector<std::byte> of_size(std::span<const std::byte> bytes, std::size_t size_bytes) {
  std::vector<std::byte> copy(size_bytes);
  std::copy_n(bytes.begin(), std::min(bytes.size(), copy.size()), copy.begin());
  return copy;
}

template <typename Number>
void put(std::span<std::byte> bytes, std::size_t at, Number number) {
  std::memcpy(bytes.subspan(at, sizeof number).data(), &number, sizeof number);
}

/// The bytes as a head of the right size with the right checksum.
std::vector<std::byte> sealed_head(std::span<const std::byte> bytes) {
  std::vector<std::byte> head = of_size(bytes, kChunkHeadBytes);
  put(head, kHeadCrcAt, std::uint32_t{0});
  put(head, kHeadCrcAt, crc32c(head));
  return head;
}

/// The bytes as the file of an order, with the right checksums of its cursor and of all.
std::vector<std::byte> sealed_order(std::span<const std::byte> bytes) {
  std::vector<std::byte> order = of_size(bytes, kOrderBytes);
  const std::span<const std::byte> all = order;
  put(order, kCursorSumAt, xxh3_128(all.subspan(kCursorAt, kCursorSumAt - kCursorAt)).low);
  put(order, kOrderCrcAt, crc32c(all.first(kOrderCrcAt)));
  return order;
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
  stoker::read_head(stoker::sealed_head(bytes));
  stoker::read_order(bytes);
  stoker::read_order(stoker::sealed_order(bytes));
  stoker::read_name(std::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
