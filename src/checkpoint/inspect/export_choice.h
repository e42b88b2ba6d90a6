/// \file
/// The choice of tensors for an export, by name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/inspect/export.h"
#include "checkpoint/restore/tensor_names.h"

namespace stoker {

/// `invalid_argument` if one of `only` is not a prefix of any tensor's name; the message lists
/// prefixes that are.
Status check_only(std::span<const NamedTensor> named, std::span<const std::string> only);

/// `invalid_argument` if an export of `only` would lack tensors of its trees: those that differ
/// between ranks, or, of a rank's trees, those that ranks share. The message names them.
Status check_complete(std::span<const NamedTensor> named, std::span<const std::string> only,
                      std::uint64_t world_size);

struct LeftOutTree {
  std::string name;
  std::uint64_t tensor_count = 0;
  std::uint64_t size_bytes = 0;
};

struct ModelChoice {
  std::vector<std::string> only;   ///< For ExportOptions.
  std::vector<std::string> strip;  ///< For ExportOptions.
  /// The other trees, by name, without exported tensors and their copies.
  std::vector<LeftOutTree> left_out;
};

/// Chooses the tree `model`, under the module's own names: without `model.`, and without the
/// prefixes of DistributedDataParallel and torch.compile(). Of tensors that every rank has saved
/// identically it chooses one copy. `invalid_argument` if there is no such tree, or the ranks
/// differ and none is chosen.
Result<ModelChoice> choose_model(const CheckpointReader& reader,
                                 std::optional<std::uint32_t> chosen_rank = {});

}  // namespace stoker
