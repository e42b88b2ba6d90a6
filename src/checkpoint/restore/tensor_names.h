/// \file
/// The names that the trees of a checkpoint have for its tensors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "checkpoint/restore/reader.h"

namespace stoker {

struct NamedTensor {
  std::string name;
  const TensorInfo* tensor = nullptr;  ///< The reader's.
};

/// Every tensor under the name it is stored by. Behind them, what trees share: a tensor that is the
/// same memory at several places is stored once, under the name of the first, and here it has the
/// names of the others too. The reader must outlive them.
std::vector<NamedTensor> name_tensors(const CheckpointReader& reader);

/// Those whose names begin with one of `only`; without any, all. Under each of `only` a tensor has
/// one name: that it is stored by, if this begins so.
std::vector<NamedTensor> choose_tensors(std::span<const NamedTensor> named,
                                        std::span<const std::string> only);

}  // namespace stoker
