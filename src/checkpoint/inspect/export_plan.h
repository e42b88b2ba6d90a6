/// \file
/// The files of an export. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/inspect/export.h"
#include "checkpoint/restore/tensor_names.h"

namespace stoker {

struct ExportFile {
  std::string name;
  std::vector<const TensorInfo*> tensors;  ///< In file order.
  std::vector<SafetensorsEntry> entries;   ///< The tensors under their new names.
};

/// Chooses, renames and sorts the tensors: larger elements first, then by name, as safetensors
/// does. Returns one file, or if `is_split`, files of at most `file_bytes_max`.
Result<std::vector<ExportFile>> plan_export(std::span<const NamedTensor> named,
                                            const ExportOptions& options, bool is_split);

/// Returns the name that PEFT gives a tensor of a LoRA adapter in a file; nothing for other
/// tensors, which belong to the base or to another adapter.
std::optional<std::string> adapter_tensor_name(std::string_view name, std::string_view adapter);

/// Returns the names that `options.only` matches but plan_export() leaves out, because it exports
/// their tensors under other names. All names are stripped.
std::vector<SameTensor> same_tensors(std::span<const NamedTensor> named,
                                     const ExportOptions& options);

/// Returns the text of model.safetensors.index.json.
std::string format_export_index(std::span<const ExportFile> files);

}  // namespace stoker
