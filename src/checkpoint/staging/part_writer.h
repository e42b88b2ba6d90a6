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
#include "checkpoint/store/staged_part.h"
#include "io/engine/rate_limiter.h"
#include "io/files/file_ops.h"

namespace stoker {

/// How far a rank is with the blocks of a save's files. While it reserves them nobody can say how
/// many of those that are free are left for others.
enum class Reservation : std::uint8_t { none, under_way, done };

/// What one rank writes, and how. Everything is borrowed.
struct PartRequest {
  StagedPart& part;  ///< New; with the files of `layout`.
  const CheckpointLayout& layout;
  std::span<const SaveTensor> tensors;  ///< Their data is not looked at: `staging` has it.
  Staging& staging;
  std::string state_json = "null";
  std::uint32_t depth = 8;             ///< Chunks being written at once.
  const LinkParent* parent = nullptr;  ///< Groups use its files where they are equal.
  RateLimiter* limiter = nullptr;
  Deadline deadline = Deadline::max();
  std::function<void(Reservation)> reservation_changed = {};
  std::atomic<std::uint64_t>* written_bytes = nullptr;  ///< Counted up as chunks complete.
};

struct WrittenPart {
  CheckpointPart part;
  std::vector<TensorScan> scans;  ///< One for each tensor.
  std::vector<FileInfo> infos;    ///< One for each file of the part.
};

/// Writes this rank's files and its part manifest, and makes both durable. Takes chunks from
/// `staging` as they are filled.
///
/// After a failure `staging` has failed too, and neither `part` nor its engine may be used again:
/// the next attempt makes new ones. Nothing is removed. Writes that have not ended by the deadline
/// stay in flight, as `part` says: it, its engine and the memory must then be kept until they
/// have.
Result<WrittenPart> write_part(const PartRequest& request);

}  // namespace stoker
