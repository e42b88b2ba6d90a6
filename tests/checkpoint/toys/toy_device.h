#pragma once

#include <memory>
#include <string>
#include <vector>

#include "checkpoint/staging/tensor_copier.h"
#include "io/engine/arena.h"

namespace stoker::testing {

/// A device whose memory the host cannot look into: a pointer to it is a number. It copies on two
/// streams, which nobody waits for before the end, into host memory that it has pinned, and
/// refuses any other.
///
/// Thread safety: none, but for its copier and its arenas.
class ToyDevice {
 public:
  ToyDevice();
  ToyDevice(const ToyDevice&) = delete;
  ToyDevice& operator=(const ToyDevice&) = delete;
  ~ToyDevice();

  /// Puts floats onto it, as a tensor to be saved.
  SaveTensor upload(std::string name, std::vector<float> values);
  /// The copy of the chunk with this number fails.
  void fail_at(std::size_t chunk);

  std::shared_ptr<TensorCopier> copier();
  ArenaMaker pinned_memory();

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace stoker::testing
