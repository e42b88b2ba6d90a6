/// \file
/// What an export puts where. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/inspect/export.h"
#include "checkpoint/restore/tensor_names.h"

namespace stoker {

struct ExportFile {
  std::string name;
  std::vector<const TensorInfo*> tensors;  ///< In the file's order.
  std::vector<SafetensorsEntry> entries;   ///< Under their new names.
};

/// Chooses, renames and orders the tensors: larger elements first, then by name, as safetensors
/// does. One file, or as many as `file_bytes_max` asks for if `is_split`.
Result<std::vector<ExportFile>> plan_export(std::span<const NamedTensor> named,
                                            const ExportOptions& options, bool is_split);

/// The names that `options.only` matches and that plan_export() leaves out, because it has their
/// tensors under other names. All as they are exported.
std::vector<SameTensor> same_tensors(std::span<const NamedTensor> named,
                                     const ExportOptions& options);

/// The text of model.safetensors.index.json.
std::string format_export_index(std::span<const ExportFile> files);

}  // namespace stoker
