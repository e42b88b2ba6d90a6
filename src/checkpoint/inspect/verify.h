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
  bad_manifest,   ///< None, or one that cannot be trusted.
  missing_file,   ///< The manifest names it.
  wrong_size,     ///< Cut off, or longer than it was.
  bad_bytes,      ///< A chunk's checksum is another.
  unreadable,     ///< The device cannot give its bytes back.
  bad_header,     ///< The file's own header tells otherwise than the manifest.
  missing_slice,  ///< Elements of a tensor are in no file.
  foreign_file,   ///< In the directory, but not in the manifest; or no file or directory at all.
  bad_latest,     ///< `latest` leads nowhere.
};

/// "bad_bytes"
std::string_view damage_kind_name(DamageKind kind) noexcept;

struct CheckpointDamage {
  DamageKind kind = DamageKind::bad_manifest;
  std::string step;  ///< Its directory's name.
  std::string file;  ///< In it; empty where it is none in particular.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;           ///< Of what cannot be trusted from there on.
  std::vector<std::string> tensors = {};  ///< Those with bytes in it.
  std::string reason;
};

struct CheckpointVerifyReport {
  std::uint64_t step_count = 0;
  std::uint64_t checked_bytes = 0;
  std::vector<CheckpointDamage> damages;  ///< By step, file and offset.
  /// Names of checkpoints that could not be looked at, for lack of rights, descriptors or memory,
  /// and why. That says nothing about them.
  std::vector<std::pair<std::string, Status>> unchecked = {};
};

struct CheckpointVerifyOptions {
  CheckpointReader::Options reader = {};
  std::stop_token stop = {};
  /// Called after each chunk on the thread that read it, also by several at once: bytes done, bytes
  /// in all, of the step at hand.
  std::function<void(const std::string& step, std::uint64_t, std::uint64_t)> progress = {};
};

/// Reads all of one checkpoint and finds every damage. `not_found` if it is not there, or was
/// removed meanwhile. A damaged checkpoint is no error; that it cannot be read for another reason
/// (rights, descriptors, memory) is one, and says nothing about the checkpoint.
Result<CheckpointVerifyReport> verify_checkpoint(const CheckpointStore& store,
                                                 const std::string& name,
                                                 const CheckpointVerifyOptions& options);

/// The same of all checkpoints in `store`, those that were superseded among them. One that
/// retention removes meanwhile is left out.
Result<CheckpointVerifyReport> verify_checkpoints(const CheckpointStore& store,
                                                  const CheckpointVerifyOptions& options);

/// `bad_latest` if the link `latest` leads nowhere. One that is behind the newest checkpoint, as
/// after a crash between two steps of a commit, is no damage.
std::optional<CheckpointDamage> check_latest(const CheckpointStore& store);

/// Names in the store that are meant for something of ours and are something else: a link or a
/// file where a directory should be. Nothing follows, writes or removes them.
Result<std::vector<CheckpointDamage>> find_foreign_names(const CheckpointStore& store);

}  // namespace stoker
