/// \file
/// `manifest.json`, which describes a checkpoint, and the part manifests it is made from. The
/// format is in docs/formats/checkpoint.md. Pure functions.
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
#include "stoker/safetensors.h"
#include "stoker/status.h"

namespace stoker {

/// Chunks start at the first byte of a file; only the last may be shorter.
inline constexpr std::uint64_t kCheckpointChunkBytes = std::uint64_t{4} << 20;

/// Largest generation: every JSON parser reads it exactly, and no run reaches it.
inline constexpr std::uint64_t kGenerationMax = std::uint64_t{1} << 53;

/// One data file of a checkpoint.
struct CheckpointFile {
  std::string name;  ///< In the checkpoint's directory: "rank-00000.safetensors".
  std::uint64_t size_bytes = 0;
  std::vector<Digest128> chunks;  ///< XXH3-128 of each chunk.
  /// How many checkpoints in a row have linked this file; 0 if it was written for this one.
  std::uint32_t link_count = 0;
  std::uint32_t place = 0;  ///< Index into CheckpointManifest::places, if there are any.
  /// The file is on the disk of another node; not in the text, find_places() sets it.
  bool is_elsewhere = false;

  friend bool operator==(const CheckpointFile&, const CheckpointFile&) = default;
};

/// The location of a tensor, or of a slice of one.
struct CheckpointTensor {
  std::string name;
  TensorType type = TensorType::f32;
  std::vector<std::uint64_t> global_shape;
  std::vector<std::uint64_t> offsets;  ///< Position of the slice in the tensor, per dimension.
  std::vector<std::uint64_t> shape;    ///< Shape of the slice.
  std::uint32_t file = 0;              ///< Index into the files of the same manifest.
  std::uint64_t begin_bytes = 0;       ///< Offset from the start of the file, not of its data.
  std::uint64_t end_bytes = 0;
  std::uint64_t nonfinite_count = 0;
  /// XXH3-128 of the slice's bytes. Absent in manifests of version 1.0.
  std::optional<Digest128> digest = {};

  friend bool operator==(const CheckpointTensor&, const CheckpointTensor&) = default;
};

/// A tensor or a slice that a rank has, and that another rank stores.
struct TensorCopy {
  std::string name;
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> shape;
  Digest128 digest;

  friend bool operator==(const TensorCopy&, const TensorCopy&) = default;
};

/// What one rank has written. Durable before the rank reports it.
struct CheckpointPart {
  std::uint32_t rank = 0;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
  std::vector<TensorCopy> copies = {};  ///< To be compared with what other ranks have stored.
  std::string state_json = "null";      ///< This rank's own state.

  friend bool operator==(const CheckpointPart&, const CheckpointPart&) = default;
};

/// The checkpoint that this one continues.
struct CheckpointParent {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;
  /// Empty, as in manifests of version 0.1: any line.
  std::string line = {};

  friend bool operator==(const CheckpointParent&, const CheckpointParent&) = default;
};

/// A node with a disk of its own, whose directory has the files of its ranks (places.h).
struct CheckpointPlace {
  std::string host;  ///< For messages.
  std::vector<std::uint32_t> ranks;

  friend bool operator==(const CheckpointPlace&, const CheckpointPlace&) = default;
};

struct CheckpointManifest {
  std::uint64_t step = 0;
  std::uint64_t generation = 0;  ///< Orders checkpoints; steps do not, because runs are rewound.
  std::string line;              ///< Line of the writer (lineage.h).
  double time_s = 0;             ///< Seconds since 1970, UTC.
  std::uint32_t world_size = 1;
  std::vector<CheckpointFile> files;
  std::vector<CheckpointTensor> tensors;
  /// The nodes, if each has a disk of its own; empty if all files are in one directory.
  std::vector<CheckpointPlace> places = {};
  /// Further copies of `tensors`, in files of other places.
  std::vector<CheckpointTensor> duplicates = {};
  std::vector<std::string> state_json;  ///< One tree for each rank, or empty.
  std::map<std::string, double> reference;
  std::string extra_json = "null";
  std::string cursor_json = "null";  ///< The loader's; opaque.
  std::optional<CheckpointParent> parent;
  /// The parent and what it continues, as far as retention still needs it.
  Lineage lineage;
  std::string tool;  ///< "stoker 0.1.0"

  friend bool operator==(const CheckpointManifest&, const CheckpointManifest&) = default;
};

/// Returns a time such as "2026-11-15T21:21:08.250Z"; empty for times before 1970 or after 9999.
std::string calendar_text(double time_s);

/// Checks that `text` can be a state tree, `extra` or `cursor` of a manifest: JSON without
/// duplicate keys, nested at most kStateDepthMax deep. `invalid_argument` names `what`. Call it
/// before a save, because the format functions copy these texts unchecked.
inline constexpr std::size_t kStateDepthMax = 60;
Status check_state_json(std::string_view text, std::string_view what);

/// Returns the text of manifest.json, which ends with a checksum of everything before it
/// (sealed_json.h). Checks nothing; names must be UTF-8. An empty tree is written as `null`.
std::string format_checkpoint_manifest(const CheckpointManifest& manifest);
std::string format_checkpoint_part(const CheckpointPart& part);

/// Parses what the functions above write; the text is untrusted. `corrupt` if a byte was changed, a
/// range is outside its file or overlaps another, slices of a tensor overlap or disagree, or a file
/// has the wrong number of checksums; `unsupported` for a newer major version, another chunk size
/// or another checksum. Unknown members are ignored. `what` is the file, for messages. The trees
/// are returned as the text they were written as, so that the order of keys is kept.
Result<CheckpointManifest> parse_checkpoint_manifest(std::string_view text, std::string_view what);
Result<CheckpointPart> parse_checkpoint_part(std::string_view text, std::string_view what);

}  // namespace stoker
