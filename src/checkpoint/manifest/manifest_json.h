/// \file
/// The members of manifest.json that its two directions, and the manifest and its parts, share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {

inline constexpr std::string_view kManifestFormat = "stoker-checkpoint";
inline constexpr std::string_view kPartFormat = "stoker-checkpoint-part";
/// Major and minor. A reader refuses a larger major; a larger minor only adds members.
inline constexpr std::string_view kManifestVersion = "1.1";
inline constexpr std::uint64_t kManifestMajor = 1;
inline constexpr std::string_view kManifestChecksum = "xxh3_128";
/// Of sizes, offsets and generations: far from where sums of two wrap.
inline constexpr std::uint64_t kManifestNumberMax = std::uint64_t{1} << 62;

/// The member `key`, an integer up to `value_max`.
Result<std::uint64_t> number_at(const JsonView& view, std::string_view key,
                                std::uint64_t value_max = kManifestNumberMax);
Result<std::string> text_at(const JsonView& view, std::string_view key);
/// A number, or {"!float": "nan" | "inf" | "-inf"}: JSON has no such numbers.
Result<double> double_of(const JsonView& view);
/// The reverse.
std::string double_text(double value);
/// In double quotes. What is not UTF-8 is replaced instead of thrown about.
std::string string_text(std::string_view text);
/// {"grad_norm": 1.5, "loss": {"!float": "inf"}}, and the reverse.
std::string doubles_text(const std::map<std::string, double>& values);
Result<std::map<std::string, double>> doubles_of(const JsonView& view);

/// The member "line", or nothing.
Result<std::string> line_at(const JsonView& view);
/// {"step": 900, "generation": 41, "line": "0f..."} or null; [["0f...", 1, 7]]. And the reverse:
/// what is absent is null or empty; `corrupt` for a lineage that is none of a checkpoint of
/// `generation`.
std::string parent_text(const std::optional<CheckpointParent>& parent);
std::string lineage_text(const Lineage& lineage);
Status parse_ancestors(const JsonView& root, std::uint64_t generation,
                       std::optional<CheckpointParent>& parent, Lineage& lineage);

/// Reads "files" and "tensors", each by itself; manifest_check.h compares them.
Status parse_manifest_entries(const JsonView& root, std::vector<CheckpointFile>& files,
                              std::vector<CheckpointTensor>& tensors);

}  // namespace stoker::internal
