#include "dataset/shard_cache/fetch_units.h"

#include <algorithm>

namespace stoker {
namespace {

class ChunkUnits final : public FetchUnits {
 public:
  explicit ChunkUnits(std::uint64_t object_bytes) : object_bytes_(object_bytes) {}

  Unit at(std::uint64_t offset_bytes) const override {
    const std::uint64_t begin = offset_bytes / ChunkId::kSizeMax * ChunkId::kSizeMax;
    return {.offset_bytes = begin,
            .size_bytes = std::min(ChunkId::kSizeMax, object_bytes_ - begin)};
  }

 private:
  const std::uint64_t object_bytes_;
};

}  // namespace

std::unique_ptr<const FetchUnits> make_chunk_units(std::uint64_t object_bytes) {
  return std::make_unique<ChunkUnits>(object_bytes);
}

}  // namespace stoker
