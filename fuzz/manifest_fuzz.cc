// The manifest parser on any text: an accepted manifest must name only files in its own directory,
// and must survive a round trip.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "dataset/shards/dataset_manifest.h"
#include "fuzz/json_text_mutator.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto manifest =
      stoker::parse_manifest(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!manifest.ok()) return 0;
  for (const stoker::ManifestShard& shard : manifest->shards)
    if (shard.file.name.find('/') != std::string::npos || shard.file.name == "..") __builtin_trap();
  const auto again = stoker::parse_manifest(stoker::format_manifest(*manifest));
  if (!again.ok() || !(*again == *manifest)) __builtin_trap();
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_json_input(data, size, max_size, seed, 6);
}
