/// \file
/// Which tensors an export takes, by their names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/inspect/export.h"
#include "checkpoint/restore/tensor_names.h"

namespace stoker {

/// `invalid_argument` if no tensor's name begins with one of `only`; says what names begin with.
Status check_only(std::span<const NamedTensor> named, std::span<const std::string> only);

struct LeftOutTree {
  std::string name;
  std::uint64_t tensor_count = 0;
  std::uint64_t size_bytes = 0;
};

struct ModelChoice {
  std::vector<std::string> only;   ///< For ExportOptions.
  std::vector<std::string> strip;  ///< Likewise.
  /// By name. What is exported, and copies of it, are not among them.
  std::vector<LeftOutTree> left_out;
};

/// The tree `model` alone, under the names that the module itself has: without `model.`, without
/// what DistributedDataParallel and torch.compile() put before them, and one copy of what every
/// rank has saved alike. `invalid_argument` if there is no such tree, or the ranks' differ.
Result<ModelChoice> choose_model(const CheckpointReader& reader);

}  // namespace stoker
