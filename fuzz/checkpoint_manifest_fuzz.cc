// Any text as a checkpoint's manifest, or as a part of one if it says so. Nobody guesses a
// checksum, so the text is sealed first: what gets through must lie inside its files, and
// be written and read again as the same.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "checkpoint/manifest/manifest.h"
#include "fuzz/manifest_mutator.h"

namespace stoker {
namespace {

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
  for (const CheckpointTensor& tensor : tensors) {
    require(tensor.begin_bytes <= tensor.end_bytes &&
            tensor.end_bytes <= files.at(tensor.file).size_bytes);
    require(tensor.offsets.size() == tensor.shape.size() &&
            tensor.global_shape.size() == tensor.shape.size());
  }
}

/// NaN is not equal to itself, so texts are compared.
void read_manifest(std::string_view text) {
  const Result<CheckpointManifest> manifest = parse_checkpoint_manifest(text, "manifest.json");
  if (manifest.ok()) {
    check_entries(manifest->files, manifest->tensors);
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
  return stoker::mutate_json_input(data, size, max_size, seed, 14);
}
