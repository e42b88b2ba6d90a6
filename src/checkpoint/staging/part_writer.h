#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/manifest/manifest.h"
#include "checkpoint/staging/chunk_scan.h"
#include "checkpoint/staging/dedup.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/staging.h"
#include "io/engine/engine.h"
#include "io/engine/rate_limiter.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"

namespace stoker {

/// How far a rank is with the blocks of a save's files. While it reserves them nobody can say how
/// many of those that are free are left for others.
enum class Reservation : std::uint8_t { none, under_way, done };

/// What one rank writes, and how. Everything is borrowed.
struct PartRequest {
  FileOps& ops;
  Engine& engine;
  PathAt directory;  ///< Staging of this attempt; made if it is not there.
  const CheckpointLayout& layout;
  std::span<const SaveTensor> tensors;  ///< Their data is not looked at: `staging` has it.
  Staging& staging;
  std::string state_json = "null";
  File::Options file = {};
  std::uint32_t depth = 8;             ///< Chunks being written at once.
  const LinkParent* parent = nullptr;  ///< Groups are linked to its files where they are equal.
  RateLimiter* limiter = nullptr;
  Deadline deadline = Deadline::max();
  std::function<void(Reservation)> reservation_changed = {};
  std::atomic<std::uint64_t>* written_bytes = nullptr;  ///< Counted up as chunks complete.
  /// Gets the files of writes that are still in flight after a failure.
  std::vector<File>* stuck_files = nullptr;
};

struct WrittenPart {
  CheckpointPart part;
  std::vector<TensorScan> scans;  ///< One for each tensor.
  std::vector<FileInfo> infos;    ///< One for each file of the part.
};

/// Writes this rank's files and its part manifest, and makes both durable; steps 1 to 7 of the
/// commit (docs/durability.md). Takes chunks from `staging` as they are filled.
///
/// After a failure `staging` has failed too, and neither the engine nor the directory may be used
/// again: the next attempt makes new ones. Nothing is removed. Writes that have not ended by the
/// deadline stay in flight, as the engine says: its memory and `stuck_files` must then be kept, and
/// the engine must not be destroyed, until they have.
Result<WrittenPart> write_part(const PartRequest& request);

}  // namespace stoker
