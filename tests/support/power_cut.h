#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "support/model_state.h"

namespace stoker::testing {

struct CutOptions {
  /// All combinations of what may be lost if there are at most this number.
  std::size_t exhaustive_max = 96;
  /// Otherwise nothing lost, all lost, each thing alone lost, each thing alone kept (of both at
  /// most this number, chosen by the seed where there are more) ...
  std::size_t single_max = 32;
  /// ... and this number of random combinations.
  std::size_t random_count = 24;
  std::uint64_t seed = 1;
};

/// One legal state after a cut: a disk on which everything is durable.
struct CutState {
  ModelState disk;
  Digest128 tree = {};  ///< disk.fingerprint(): what makes it another state.
  /// For people: what is not as it was while the power was on, "block 0 of inode 4: durable".
  std::string lost;
};

/// The states that a power cut may leave now, by the rules of ModelFile and ModelNames. Different
/// losses may leave equal trees; each tree is given once. The same seed gives the same states.
std::vector<CutState> states_after_cut(const ModelState& state, const CutOptions& options);

}  // namespace stoker::testing
