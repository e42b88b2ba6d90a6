#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/restore/reader.h"
#include "io/files/file_ops.h"

namespace stoker {

struct TextFile {
  std::string name;
  std::string text;
};

struct ExportOptions {
  /// Export the tensors of this rank, its own and those that ranks share, under the names in its
  /// trees. Without it, names of tensors that differ between ranks begin with the rank.
  std::optional<std::uint32_t> rank = {};
  /// Export only tensors whose names begin with one of these; empty: all. A tensor that trees share
  /// has a name in each of them.
  std::vector<std::string> only = {};
  /// Prefixes to remove from names; the longest that matches is removed.
  std::vector<std::string> strip = {};
  /// Export only the LoRA adapter of this name, as PEFT names it in files: `x.lora_A.weight`, where
  /// the model has `x.lora_A.default.weight`. For a directory, which then has one file.
  std::optional<std::string> adapter = {};
  /// Other files of the directory.
  std::vector<TextFile> files = {};
  /// Maximum size of a file in a directory; a larger tensor gets its own file.
  std::uint64_t file_bytes_max = std::uint64_t{5} << 30;
  std::uint64_t piece_bytes = std::uint64_t{16} << 20;  ///< In memory at a time.
  /// Called after each piece with the bytes of tensors written and the total.
  std::function<void(std::uint64_t, std::uint64_t)> progress = {};
};

/// Another name of a tensor that is exported under the name `exported`, for example of tied
/// weights. Each tensor is exported once.
struct SameTensor {
  std::string name;
  std::string exported;
};

struct ExportReport {
  std::vector<std::string> files;  ///< Paths of the safetensors files.
  std::string sums;                ///< Path of the file for `sha256sum -c`.
  std::uint64_t tensor_count = 0;
  std::uint64_t size_bytes = 0;
  std::vector<SameTensor> same;
};

/// Writes the whole tensors of a checkpoint to one safetensors file, which appears atomically and
/// durably, and its checksum to `<path>.sha256`. `already_exists` if one of the files exists;
/// `invalid_argument` if two tensors would have the same name or no tensor is left.
Result<ExportReport> export_safetensors(const CheckpointReader& reader, FileOps& ops,
                                        const std::string& path, const ExportOptions& options);

/// As export_safetensors(), but writes a directory in the layout of Hugging Face models:
/// `model.safetensors`, or several files with `model.safetensors.index.json`; or, of an adapter,
/// `adapter_model.safetensors`; and SHA256SUMS. The directory must not exist; it appears atomically
/// and durably.
Result<ExportReport> export_directory(const CheckpointReader& reader, FileOps& ops,
                                      const std::string& directory, const ExportOptions& options);

}  // namespace stoker
