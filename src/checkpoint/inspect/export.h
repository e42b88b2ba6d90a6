#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/restore/reader.h"
#include "io/files/file_ops.h"

namespace stoker {

struct ExportOptions {
  /// Tensors whose names begin with one of these; without any, all. What trees share has the names
  /// of each of them.
  std::vector<std::string> only = {};
  /// Taken off the beginning of a name; of several that fit, the longest.
  std::vector<std::string> strip = {};
  /// Of one file in a directory; a larger tensor has a file to itself.
  std::uint64_t file_bytes_max = std::uint64_t{5} << 30;
  std::uint64_t piece_bytes = std::uint64_t{16} << 20;  ///< In memory at a time.
  /// Called after each piece: bytes of tensors written, and bytes in all.
  std::function<void(std::uint64_t, std::uint64_t)> progress = {};
};

/// A tensor is exported once. A name that the checkpoint has for it beside the one it is exported
/// by, as of tied weights.
struct SameTensor {
  std::string name;
  std::string exported;
};

struct ExportReport {
  std::vector<std::string> files;  ///< Of tensors.
  std::string sums;                ///< The file that `sha256sum -c` takes.
  std::uint64_t tensor_count = 0;
  std::uint64_t size_bytes = 0;
  std::vector<SameTensor> same;
};

/// Writes a checkpoint's tensors, each whole, into one safetensors file, which appears at once and
/// durable; beside it `<path>.sha256`. `already_exists` if there is a file of that name,
/// `invalid_argument` if two tensors would have the same name or none is left.
Result<ExportReport> export_safetensors(const CheckpointReader& reader, FileOps& ops,
                                        const std::string& path, const ExportOptions& options);

/// The same into a directory as Hugging Face lays models out: `model.safetensors`, or several files
/// with `model.safetensors.index.json`; and SHA256SUMS. The directory must not exist; it appears at
/// once and durable.
Result<ExportReport> export_directory(const CheckpointReader& reader, FileOps& ops,
                                      const std::string& directory, const ExportOptions& options);

}  // namespace stoker
