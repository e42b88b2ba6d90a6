/// \file
/// Trees as the tagged JSON of docs/formats/checkpoint.md, which Python's trees have as well
/// (python/stoker/_checkpoint/state). Pure.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "stoker/status.h"
#include "stoker/tree.h"

namespace stoker::internal {

inline constexpr std::string_view kSliceTag = "!slice";

/// Returns the name in the files of a tensor at `path`, "model.weights"; an error, without the
/// path, if it cannot be saved.
using NameTensor =
    std::function<Result<std::string>(const TensorView& tensor, const std::string& path)>;

/// Writes a tree. `path` begins the names of places. The message of `invalid_argument` begins with
/// the place.
Result<std::string> write_tree(const Tree& tree, const std::string& path, const NameTensor& name);

/// Reads a tree. The views of tensors have a name, and neither type nor memory; a part of a tensor
/// has the tag kSliceTag. `what` begins messages. Errors as parse_tree().
Result<Tree> read_tree(std::string_view json, std::string_view what);

}  // namespace stoker::internal
