/// \file
/// Imports tensors from files of other programs as a checkpoint.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "checkpoint/manifest/manifest.h"
#include "cli/command.h"

namespace stoker::cli {

struct ImportRequest {
  std::string directory;  ///< Directory of the checkpoints; created if it does not exist.
  std::string file;       ///< A safetensors file, or a file or directory that torch reads.
  std::uint64_t step = 0;
  /// Name of the tree, for restore(state=...); tensor names begin with it and a dot. Nothing:
  /// `state`, or for torch's files the trees in them.
  std::optional<std::string> tree = {};
};

struct ImportReport {
  std::string name;  ///< Name of the checkpoint.
  std::uint64_t generation = 0;
  std::uint64_t tensor_count = 0;
  std::uint64_t size_bytes = 0;  ///< Size of the tensors.
};

/// Whether torch must read the file: a directory, or a torch file or pickle by its name or first
/// bytes. `not_found` if it does not exist.
Result<bool> is_read_by_torch(const std::string& file);

/// `already_exists` if the step exists; `invalid_argument` for a name that Python does not accept
/// for a tree, and for a directory that contains other files but no checkpoints, because a writer
/// removes leftovers from its directory.
Status check_import(const ImportRequest& request);

/// Saves the tensors of a safetensors file as checkpoint `step`, with bounded memory. The state is
/// one tree, a dict of the tensors by name; the file's metadata is in `extra`. Call check_import()
/// first.
///
/// `corrupt` names the file, also if it is truncated during the import; `cancelled` if the user
/// interrupts. In both cases nothing is committed.
Result<ImportReport> import_safetensors(const ImportRequest& request, Context& context);

}  // namespace stoker::cli
