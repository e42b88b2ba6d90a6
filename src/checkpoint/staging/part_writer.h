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

/// Whether a rank has reserved the blocks of a save's files. While it is under way, it is unknown
/// how much of the free space is left for other saves.
enum class Reservation : std::uint8_t { none, under_way, done };

/// What one rank writes, and how. Everything is borrowed.
struct PartRequest {
  StagedPart& part;  ///< A new part with the files of `layout`.
  const CheckpointLayout& layout;
  std::span<const SaveTensor> tensors;  ///< Their data is not read: it is in `staging`.
  Staging& staging;
  std::string state_json = "null";
  std::vector<TensorCopy> copies = {};  ///< Of what other ranks store, for the part manifest.
  std::uint32_t depth = 8;              ///< Maximum number of chunks being written.
  const LinkParent* parent = nullptr;   ///< Groups reuse its files if they are equal; may be null.
  RateLimiter* limiter = nullptr;
  Deadline deadline = Deadline::max();
  std::function<void(Reservation)> reservation_changed = {};
  std::atomic<std::uint64_t>* written_bytes = nullptr;  ///< Incremented as chunks complete.
};

struct WrittenPart {
  CheckpointPart part;
  std::vector<TensorScan> scans;  ///< One for each tensor.
  std::vector<FileInfo> infos;    ///< One for each file of the part.
};

/// Writes this rank's files and its part manifest, and makes both durable. Takes chunks from
/// `staging` as they are filled.
///
/// After a failure `staging` has failed too, and neither `part` nor its engine may be used again.
/// Nothing is removed. Writes that have not ended by the deadline stay in flight: if
/// `part.in_flight()` is not 0, the part, its engine and the memory must be kept until they end.
Result<WrittenPart> write_part(const PartRequest& request);

}  // namespace stoker
