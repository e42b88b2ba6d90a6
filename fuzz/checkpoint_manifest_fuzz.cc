// Any text as the manifest of a checkpoint, or as a part of one if it names that format. The text
// gets a correct checksum first. In an accepted manifest every tensor must be inside its file, the
// tensors of a file must not be larger than it in total, and the manifest must survive a round
// trip, which is tested for one of four, because it takes as long as all the rest.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "fuzz/manifest_mutator.h"
#include "fuzz/sampling.h"

namespace stoker {
namespace {

constexpr std::size_t kRoundTrips = 4;

void require(bool condition) {
  if (!condition) std::abort();
}

void require_printable(const Status& status) {
  require(std::ranges::all_of(status.message(), [](char c) { return c >= ' ' && c <= '~'; }));
}

void check_entries(const std::vector<CheckpointFile>& files,
                   const std::vector<CheckpointTensor>& tensors) {
  for (const CheckpointFile& file : files) {
    require(file.name.find('/') == std::string::npos && file.name != ".." && !file.name.empty());
    require((file.size_bytes + kCheckpointChunkBytes - 1) / kCheckpointChunkBytes ==
            file.chunks.size());
  }
  std::vector<std::uint64_t> total_bytes(files.size());
  for (const CheckpointTensor& tensor : tensors) {
    require(tensor.begin_bytes <= tensor.end_bytes &&
            tensor.end_bytes <= files.at(tensor.file).size_bytes);
    require(tensor.offsets.size() == tensor.shape.size() &&
            tensor.global_shape.size() == tensor.shape.size());
    total_bytes[tensor.file] += tensor.end_bytes - tensor.begin_bytes;
    require(total_bytes[tensor.file] <= files[tensor.file].size_bytes);
  }
}

/// Compares texts, because NaN is not equal to itself.
void read_manifest(std::string_view text) {
  const Result<CheckpointManifest> manifest = parse_checkpoint_manifest(text, "manifest.json");
  if (manifest.ok()) {
    check_entries(manifest->files, manifest->tensors);
    if (!is_one_of(kRoundTrips, text)) return;
    const std::string written = format_checkpoint_manifest(*manifest);
    const auto again = parse_checkpoint_manifest(written, "manifest.json");
    require(again.ok() && format_checkpoint_manifest(*again) == written);
  } else {
    require_printable(manifest.status());
  }
}

void read_part(std::string_view text) {
  const Result<CheckpointPart> part = parse_checkpoint_part(text, "part.json");
  if (part.ok()) {
    check_entries(part->files, part->tensors);
    if (!is_one_of(kRoundTrips, text)) return;
    const auto again = parse_checkpoint_part(format_checkpoint_part(*part), "part.json");
    require(again.ok() && *again == *part);
  } else {
    require_printable(part.status());
  }
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const bool is_part = text.find("stoker-checkpoint-part") != std::string_view::npos;
  const auto read = is_part ? stoker::read_part : stoker::read_manifest;
  if (text.find("\"xxh3_128\": ") != std::string_view::npos) read(text);
  read(stoker::seal_again(text));
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  return stoker::mutate_manifest_input(data, size, max_size, seed, 1);
}
