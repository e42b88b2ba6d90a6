#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stoker/digest.h"
#include "stoker/store.h"

namespace stoker {

/// Names a range of one version of an object. The name of a chunk file follows from it, so two
/// versions of an object, or two ways to cut it, never share a file.
struct ChunkId {
  /// Chunks are at most this long: 128 blocks.
  static constexpr std::uint64_t kSizeMax = std::uint64_t{8} << 20;

  Digest128 object = {};  ///< See object_id().
  std::uint64_t offset_bytes = 0;
  std::uint32_t size_bytes = 0;  ///< 1 to kSizeMax.

  friend bool operator==(const ChunkId&, const ChunkId&) = default;
  friend auto operator<=>(const ChunkId& a, const ChunkId& b) noexcept {
    if (const auto object = a.object.high <=> b.object.high; object != 0) return object;
    if (const auto object = a.object.low <=> b.object.low; object != 0) return object;
    if (const auto offset = a.offset_bytes <=> b.offset_bytes; offset != 0) return offset;
    return a.size_bytes <=> b.size_bytes;
  }
};

/// Identifies one version of an object, for ever and everywhere: a hash of its identity
/// (ObjectStore::identity_of()), its size and its version.
Digest128 object_id(std::string_view identity, const ObjectInfo& info);

/// "<32 digits of the object>-<offset>-<size>", the numbers in hexadecimal.
std::string chunk_name(const ChunkId& id);

/// Reads a name of chunk_name(); nothing for any other text.
std::optional<ChunkId> parse_chunk_name(std::string_view name);

}  // namespace stoker
