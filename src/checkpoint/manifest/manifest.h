/// \file
/// What a checkpoint says about itself: `manifest.json`, and the parts from which it is made.
/// docs/formats/checkpoint.md has the format. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/checksum.h"
#include "checkpoint/manifest/lineage.h"
#include "formats/arrays/safetensors.h"
#include "stoker/status.h"

namespace stoker {

/// Chunks count from the first byte of a file; only the last may be shorter.
inline constexpr std::uint64_t kCheckpointChunkBytes = std::uint64_t{4} << 20;

/// What every JSON parser reads exactly. A run gets nowhere near it.
inline constexpr std::uint64_t kGenerationMax = std::uint64_t{1} << 53;

/// One data file of a checkpoint.
struct CheckpointFile {
  std::string name;  ///< In the checkpoint's directory: "rank-00000.safetensors".
  std::uint64_t size_bytes = 0;
  std::vector<Digest128> chunks;  ///< XXH3-128 of each chunk.
  /// How many checkpoints in a row have linked these bytes; 0 when they were written here.
  std::uint32_t link_count = 0;

  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

/// Where a tensor, or a slice of one, lies.
struct CheckpointTensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> global_shape;
  std::vector<std::uint64_t> offsets;  ///< Of the slice in the tensor; as many as dimensions.
  std::vector<std::uint64_t> shape;    ///< Of the slice.
  std::uint32_t file = 0;              ///< Index into the files of the same manifest.
  std::uint64_t begin_bytes = 0;       ///< In the file, header included.
  std::uint64_t end_bytes = 0;
  std::uint64_t nonfinite_count = 0;
  /// XXH3-128 of the slice's bytes. Absent in manifests of version 1.0.
  std::optional<Digest128> digest = {};

  friend bool operator==(const CheckpointTensor&, const CheckpointTensor&) = default;
};

/// What one rank has written, durable before it is told to anybody.
struct CheckpointPart {
  std::uint32_t rank = 0;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
  std::string state_json = "null";  ///< This rank's own state.

  friend bool operator==(const CheckpointPart&, const CheckpointPart&) = default;
};

/// The checkpoint that this one continues.
struct CheckpointParent {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  /// Empty: of whichever line. So it is in manifests of 0.1.
  std::string line = {};

  friend bool operator==(const CheckpointParent&, const CheckpointParent&) = default;
};

struct CheckpointManifest {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;  ///< Says what is newest; steps do not, because runs are rewound.
  std::string line;              ///< Of the writer (lineage.h).
  double time_s = 0;             ///< Since 1970, UTC.
  std::uint32_t world_size = 1;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
  std::vector<std::string> state_json;  ///< One tree for each rank, or none at all.
  std::map<std::string, double> reference;
  std::string extra_json = "null";
  std::string cursor_json = "null";  ///< The loader's; opaque.
  std::optional<CheckpointParent> parent;
  /// The parent and what it continues, as far as it is still there.
  Lineage lineage;
  std::string tool;  ///< "stoker 0.1.0"

  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

/// "2026-11-15T21:21:08.250Z", for people; empty for what no calendar of four digits holds.
std::string calendar_text(double time_s);

/// Whether a manifest can hold `text` as a state tree, `extra` or `cursor`: JSON, no key twice,
/// nested at most kStateDepthMax deep. `invalid_argument` names `what`. To be asked before a save
/// begins, because formatting takes these texts as they are.
inline constexpr std::size_t kStateDepthMax = 60;
Status check_state_json(std::string_view text, std::string_view what);

/// The text of manifest.json: ends with the checksum of everything before it (sealed_json.h).
/// Nothing is checked here; names must be UTF-8. An empty tree is written as `null`.
std::string format_checkpoint_manifest(const CheckpointManifest& manifest);
std::string format_checkpoint_part(const CheckpointPart& part);

/// Reads what the functions above write, from anybody: `corrupt` if a byte was changed, a range
/// lies outside of its file, slices of a tensor overlap or disagree, a file has too few checksums;
/// `unsupported` for a newer major version, chunks of another size, another checksum. Members it
/// does not know are passed over. `what` is the file, for messages. The trees come back as the text
/// they were written as, so that the order of keys is kept.
Result<CheckpointManifest> parse_checkpoint_manifest(std::string_view text, std::string_view what);
Result<CheckpointPart> parse_checkpoint_part(std::string_view text, std::string_view what);

}  // namespace stoker
