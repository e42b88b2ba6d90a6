// The index parser on any bytes: every sample that an accepted index finds must be inside its
// shard.
#include <cstddef>
#include <cstdint>

#include "dataset/index/index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const stoker::Result<stoker::Index> index =
      stoker::Index::parse({reinterpret_cast<const std::byte*>(data), size});
  if (!index.ok()) return 0;
  for (std::uint64_t i = 0; i < index->sample_count(); ++i) {
    const auto at = index->locate(i);
    if (at.ok() && at->record.end_bytes() > index->shards()[at->shard].plain_size_bytes)
      __builtin_trap();
    if (at.ok() && at->record.size_bytes > index->record_bytes_max()) __builtin_trap();
  }
  if (index->worst_case_bytes(index->sample_count()) < index->worst_case_bytes(1)) __builtin_trap();
  return 0;
}
