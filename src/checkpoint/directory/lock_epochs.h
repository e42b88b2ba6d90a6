#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "base/unique_fd.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/lock_record.h"

namespace stoker {

/// An epoch and the record of its holder.
struct LockEpoch {
  std::uint64_t number = 0;
  /// Nothing while it cannot be read: it was removed or is being written.
  std::optional<LockRecord> record = {};

  friend bool operator==(const LockEpoch&, const LockEpoch&) = default;
};

/// The files `.lock-<epoch>`, which decide between hosts who may write: the holder of the greatest
/// epoch. Each file is created once, by link(2) from a private file, and written only by its
/// creator.
///
/// Thread safety: const methods may be called from any thread.
class LockEpochs {
 public:
  explicit LockEpochs(CheckpointDirectory directory) : directory_(std::move(directory)) {}

  /// Reads the greatest epoch below `before`; number 0 and no record if there is none.
  Result<LockEpoch> greatest(
      std::uint64_t before = std::numeric_limits<std::uint64_t>::max()) const;

  /// Creates the epoch `number` with this record and returns a descriptor for write(); nothing if
  /// another writer has created it. After an error it has left no file, unless that cannot be
  /// removed.
  Result<std::optional<UniqueFd>> create(std::uint64_t number, const LockRecord& record) const;

  /// Removes an epoch that create() has made.
  void remove(std::uint64_t number) const;

  /// Overwrites the record durably.
  Status write(int fd, const LockRecord& record) const;

  /// Removes the epochs before `number` and the private files of all claims; claimants that are
  /// alive start again. For the holder of `number`.
  void remove_before(std::uint64_t number) const;

 private:
  Result<std::optional<UniqueFd>> taken(const PathAt& epoch) const;
  Result<std::optional<UniqueFd>> kept(std::uint64_t number, UniqueFd fd,
                                       const Status& durable) const;

  CheckpointDirectory directory_;
};

}  // namespace stoker
