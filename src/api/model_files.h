#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/restore/reader.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Safetensors files that belong together.
struct ModelFiles {
  std::vector<std::string> paths;
  /// The names that the index has, each with the index of its file; empty without an index: the
  /// files have them all.
  std::vector<std::pair<std::string, std::size_t>> names = {};
};

/// Returns the files of a model: `path` is a safetensors file, a folder of them as Hugging Face
/// writes it, or an index in it. Nothing for anything else, such as checkpoints. `corrupt` if the
/// index is damaged, or names a file that is missing or elsewhere; `invalid_argument` if there are
/// several.
Result<std::optional<ModelFiles>> find_model_files(const std::string& path);

/// `corrupt` unless every name of the index is in its file.
Status check_index(const ModelFiles& files, const CheckpointReader& reader);

}  // namespace stoker::internal
