#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/restore/reader.h"

namespace stoker {

/// A tensor that is not the same in both checkpoints.
struct TensorChange {
  std::string name;
  /// Another type or shape: nothing else can be said.
  bool is_reshaped = false;
  std::uint64_t element_count = 0;
  std::uint64_t changed_count = 0;  ///< Elements with other bytes; 0 for types of less than a byte.
  /// Of the differences that are finite, for types of a byte and more.
  bool has_norms = false;
  double l2 = 0;
  double max_abs = 0;
  std::uint64_t nonfinite_count = 0;  ///< Differences that are not.
};

struct CheckpointDiff {
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::vector<TensorChange> changed;
  std::uint64_t unchanged_count = 0;
  std::uint64_t compared_bytes = 0;  ///< Read from each side; the checksums spared the rest.
};

struct DiffOptions {
  std::uint64_t piece_bytes = std::uint64_t{16} << 20;  ///< Of both in memory at a time.
  /// Called after each piece and each tensor: bytes done, bytes in all.
  std::function<void(std::uint64_t, std::uint64_t)> progress = {};
};

/// Compares `after` with `before`, tensors by name. Where the checksums agree nothing is read.
Result<CheckpointDiff> diff_checkpoints(const CheckpointReader& before,
                                        const CheckpointReader& after,
                                        const DiffOptions& options = {});

}  // namespace stoker
