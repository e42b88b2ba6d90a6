/// \file
/// The names of tensors in the trees of a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/restore/reader.h"

namespace stoker {

struct NamedTensor {
  std::string name;
  const TensorInfo* tensor = nullptr;  ///< Owned by the reader.
};

/// Returns the tensor that a name in the tree of a rank refers to: the rank's own, or else a shared
/// one. Null if there is none.
const TensorInfo* find_in_tree(const CheckpointReader& reader, std::uint32_t rank,
                               std::string_view name);

/// Returns every tensor under the name it is stored by, followed by aliases: a tensor that shares
/// its memory at several places of the trees is stored once, under the first name, and listed here
/// under the others too. The reader must outlive the result.
std::vector<NamedTensor> name_tensors(const CheckpointReader& reader);

/// Returns the tensors of one rank, under the names in its trees: its own, and those that ranks
/// share. Without a rank, as name_tensors(): those of other ranks begin with the rank.
std::vector<NamedTensor> name_tensors(const CheckpointReader& reader,
                                      std::optional<std::uint32_t> rank);

/// Returns the tensors whose names begin with one of `only`; all if it is empty. For each prefix a
/// tensor is returned once, under the name it is stored by if that matches.
std::vector<NamedTensor> choose_tensors(std::span<const NamedTensor> named,
                                        std::span<const std::string> only);

}  // namespace stoker
