/// \file
/// The members of manifest.json that its two directions, and the manifest and its parts, share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest.h"
#include "formats/strict_json.h"

namespace stoker::internal {

inline constexpr std::string_view kManifestFormat = "stoker-checkpoint";
inline constexpr std::string_view kPartFormat = "stoker-checkpoint-part";
/// Major and minor. A reader refuses a larger major; a larger minor only adds members.
inline constexpr std::string_view kManifestVersion = "1.0";
inline constexpr std::uint64_t kManifestMajor = 1;
inline constexpr std::string_view kManifestChecksum = "xxh3_128";
/// Of sizes and offsets: far from where sums of two wrap.
inline constexpr std::uint64_t kManifestNumberMax = std::uint64_t{1} << 62;

/// The member `key`, an integer up to `value_max`.
Result<std::uint64_t> number_at(const JsonView& view, std::string_view key,
                                std::uint64_t value_max = kManifestNumberMax);
Result<std::string> text_at(const JsonView& view, std::string_view key);
/// A number, or {"!float": "nan" | "inf" | "-inf"}.
Result<double> double_of(const JsonView& view);

/// Reads "files" and "tensors", each by itself; manifest_check.h compares them.
Status parse_manifest_entries(const JsonView& root, std::vector<CheckpointFile>& files,
                              std::vector<CheckpointTensor>& tensors);

}  // namespace stoker::internal
