/// \file
/// Tensors of other people's files as a checkpoint of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/manifest/manifest.h"
#include "cli/command.h"

namespace stoker::cli {

struct ImportRequest {
  std::string directory;  ///< The checkpoints'; made if it is not there.
  std::string file;       ///< One safetensors file, or what torch reads.
  std::uint64_t step = 0;
  /// What the tensors are in a program that restores them: restore(state=...). Their names begin
  /// with it and a point. Nothing: `state`, or for torch's files the trees that are in them.
  std::optional<std::string> tree = {};
};

struct ImportReport {
  std::string name;  ///< Of the checkpoint.
  std::uint64_t generation = 0;
  std::uint64_t tensor_count = 0;
  std::uint64_t size_bytes = 0;  ///< Of the tensors.
};

/// Whether it is torch that reads the file: a pickle by its name or its first bytes, or a
/// directory. `not_found` if there is none.
Result<bool> is_read_by_torch(const std::string& file);

/// `already_exists` if there is such a step; `invalid_argument` for a name that Python does not
/// take for a tree, and for a directory that holds other things than checkpoints, because a writer
/// sweeps its directory.
Status check_import(const ImportRequest& request);

/// Saves the tensors of a safetensors file as checkpoint `step`, passing them through a bounded
/// piece of memory; the state is one tree, a dict of them by name, the file's metadata is in
/// `extra`. check_import() comes first.
///
/// `corrupt` names the file, also when it is shortened meanwhile; `cancelled` when the user asked
/// to stop. Nothing was committed then.
Result<ImportReport> import_safetensors(const ImportRequest& request, Context& context);

}  // namespace stoker::cli
