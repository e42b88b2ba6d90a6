#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "checkpoint/staging/layout.h"
#include "stoker/status.h"
#include "stoker/tree.h"

namespace stoker::internal {

/// Returns the bytes that the elements of a view span, as offsets from the first element: begin and
/// end. `invalid_argument`, without a place, if they are not in the view's memory, or the strides
/// are not one for each dimension.
Result<std::pair<std::int64_t, std::int64_t>> span_of(const TensorView& view);

/// "f32 (256, 3)", for messages.
std::string describe_tensor(TensorType type, std::span<const std::uint64_t> shape);

/// The tensors of trees that are about to be saved, each under the name of its first place: "model"
/// and the keys and indexes that lead to it, joined by points. Equal memory is one tensor.
///
/// Thread safety: none.
class TreeTensors {
 public:
  /// Returns the JSON of a tree, whose tensors are collected. `invalid_argument` names the place.
  Result<std::string> write(const Tree& tree, const std::string& name);

  /// What was collected. The views' memory is borrowed.
  std::vector<SaveTensor> take() { return std::move(tensors_); }

 private:
  using Key = std::tuple<std::int32_t, const std::byte*, TensorType, std::vector<std::uint64_t>,
                         std::vector<std::int64_t>, std::string, std::vector<std::uint64_t>,
                         std::vector<std::uint64_t>>;

  Result<std::string> name_tensor(const TensorView& view, const std::string& path);

  std::vector<SaveTensor> tensors_;
  std::map<Key, std::string> names_;
  std::set<std::string> taken_;
};

}  // namespace stoker::internal
