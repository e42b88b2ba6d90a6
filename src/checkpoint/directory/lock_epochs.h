#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/lock_record.h"

namespace stoker {

/// An epoch and what its holder says.
struct LockEpoch {
  std::uint64_t number = 0;
  /// Nothing while it cannot be read: it was removed, or is just being written.
  std::optional<LockRecord> record = {};

  friend bool operator==(const LockEpoch&, const LockEpoch&) = default;
};

/// The files `.lock-<epoch>`, which say between hosts who may write: the holder of the greatest.
/// Each is made once, by link(2) from a private file, and written by its creator alone.
///
/// Thread safety: const methods may be called from any thread.
class LockEpochs {
 public:
  explicit LockEpochs(CheckpointDirectory directory) : directory_(std::move(directory)) {}

  /// The greatest, or the greatest before another one, read anew; number 0 and no record if there
  /// is none.
  Result<LockEpoch> greatest(
      std::uint64_t before = std::numeric_limits<std::uint64_t>::max()) const;

  /// Makes the epoch `number` with this record and returns a descriptor to write it by; nothing if
  /// somebody else has made it.
  Result<std::optional<UniqueFd>> create(std::uint64_t number, const LockRecord& record) const;

  /// Takes back what create() has made.
  void remove(std::uint64_t number) const;

  /// Writes the record over the one before, durably.
  Status write(int fd, const LockRecord& record) const;

  /// Removes the epochs before `number`, and the private files of all who would claim one: whoever
  /// is alive begins anew. For the holder of `number`.
  void remove_before(std::uint64_t number) const;

 private:
  Result<std::optional<UniqueFd>> taken(const PathAt& epoch) const;

  CheckpointDirectory directory_;
};

}  // namespace stoker
