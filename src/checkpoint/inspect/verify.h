#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/restore/reader.h"
#include "io/files/file_ops.h"

namespace stoker {

enum class DamageKind : std::uint8_t {
  bad_manifest,   ///< The manifest is missing or invalid.
  missing_file,   ///< A file in the manifest is missing or not a regular file.
  wrong_size,     ///< A file is truncated, or longer than in the manifest.
  bad_bytes,      ///< Checksum mismatch of a chunk.
  unreadable,     ///< The device cannot read the bytes.
  bad_header,     ///< The header of a file contradicts the manifest.
  bad_digest,     ///< The digest of a tensor is not that of its bytes.
  missing_slice,  ///< Elements of a tensor are in no file.
  foreign_file,   ///< A file that is not in the manifest; or a ForeignName.
  bad_latest,     ///< `latest` does not lead to a checkpoint.
};

/// Returns the name of the enumerator: "bad_bytes".
std::string_view damage_kind_name(DamageKind kind) noexcept;

struct CheckpointDamage {
  DamageKind kind = DamageKind::bad_manifest;
  std::string step;  ///< Name of the checkpoint; empty if the damage is outside of checkpoints.
  std::string file;  ///< Name of the file in it.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;           ///< Size of the damaged range.
  std::vector<std::string> tensors = {};  ///< Tensors with bytes in the range.
  std::string reason;
};

struct CheckpointVerifyReport {
  std::uint64_t step_count = 0;
  std::uint64_t checked_bytes = 0;
  std::vector<CheckpointDamage> damages;  ///< For each step sorted by file and offset.
  /// Files that are on the disks of other nodes (manifest/places.h), and were not checked.
  std::uint64_t elsewhere_count = 0;
  /// Checkpoints that could not be checked for lack of permissions, descriptors or memory: name and
  /// error. They may be valid.
  std::vector<std::pair<std::string, Status>> unchecked = {};
};

struct CheckpointVerifyOptions {
  CheckpointReader::Options reader = {};
  std::stop_token stop = {};
  /// Called after each chunk on the thread that read it, possibly by several at once, with the name
  /// of the step, and its bytes done and total.
  std::function<void(const std::string& step, std::uint64_t, std::uint64_t)> progress = {};
};

/// Reads all of one checkpoint and reports every damage. Returns an error only if the checkpoint
/// could not be checked: `not_found` if it does not exist or was removed meanwhile, or the error of
/// a lack of permissions, descriptors or memory.
Result<CheckpointVerifyReport> verify_checkpoint(const CheckpointStore& store,
                                                 const std::string& name,
                                                 const CheckpointVerifyOptions& options);

/// Verifies all checkpoints in `store`, including superseded ones, `latest` and foreign names.
/// Checkpoints that retention removes meanwhile are left out.
Result<CheckpointVerifyReport> verify_checkpoints(const CheckpointStore& store,
                                                  const CheckpointVerifyOptions& options);

/// Returns `bad_latest` if `latest` is not a link or does not lead to a checkpoint. A `latest` that
/// points to an older checkpoint, as after a crash during a commit, is not damage.
std::optional<CheckpointDamage> check_latest(const CheckpointStore& store);

/// Returns the foreign names in the store (ForeignName), except `latest`: for example a link or a
/// file where a directory should be.
Result<std::vector<CheckpointDamage>> find_foreign_names(const CheckpointStore& store);

}  // namespace stoker
