#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/restore/reader.h"

namespace stoker {

/// A tensor that differs between both checkpoints.
struct TensorChange {
  std::string name;
  /// It has another type or shape; the other members are not set.
  bool is_reshaped = false;
  std::uint64_t element_count = 0;  ///< 0 for elements smaller than a byte, like the next one.
  std::uint64_t changed_count = 0;  ///< Elements with different bytes.
  /// Whether the norms of the finite differences are set: not for elements smaller than a byte.
  bool has_norms = false;
  double l2 = 0;
  double max_abs = 0;
  std::uint64_t nonfinite_count = 0;  ///< Number of non-finite differences.
};

struct CheckpointDiff {
  std::vector<std::string> added;
  std::vector<std::string> removed;
  std::vector<TensorChange> changed;
  std::uint64_t unchanged_count = 0;
  std::uint64_t compared_bytes = 0;  ///< Read from each side; the rest was compared by checksums.
};

struct DiffOptions {
  std::uint64_t piece_bytes = std::uint64_t{16} << 20;  ///< In memory at a time, for each side.
  /// Called after each piece and each tensor with the bytes done and the total.
  std::function<void(std::uint64_t, std::uint64_t)> progress = {};
};

/// Compares the tensors of `after` with those of the same name in `before`. Tensors with equal
/// checksums are not read.
Result<CheckpointDiff> diff_checkpoints(const CheckpointReader& before,
                                        const CheckpointReader& after,
                                        const DiffOptions& options = {});

}  // namespace stoker
