/// \file
/// Members of manifest.json, shared by formatting and parsing, manifests and part manifests.
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
/// Major and minor. A reader refuses a larger major; a larger minor only adds members. The second
/// is for checkpoints of several ranks, whose trees name tensors without the rank; the third for
/// those of several places, of whose files a directory has only some.
inline constexpr std::string_view kManifestVersion = "1.1";
inline constexpr std::string_view kRanksManifestVersion = "2.0";
inline constexpr std::string_view kPlacesManifestVersion = "3.0";
inline constexpr std::uint64_t kManifestMajor = 3;
inline constexpr std::string_view kManifestChecksum = "xxh3_128";
/// Largest size or offset; the sum of two does not wrap.
inline constexpr std::uint64_t kManifestNumberMax = std::uint64_t{1} << 62;

/// Returns the member `key`, an integer up to `value_max`.
Result<std::uint64_t> number_at(const JsonView& view, std::string_view key,
                                std::uint64_t value_max = kManifestNumberMax);
Result<std::string> text_at(const JsonView& view, std::string_view key);
/// Parses a number, or {"!float": "nan" | "inf" | "-inf"}, which JSON numbers cannot express.
Result<double> double_of(const JsonView& view);
/// The inverse of double_of().
std::string double_text(double value);
/// Returns a JSON string in double quotes. Bytes that are not UTF-8 are replaced.
std::string string_text(std::string_view text);
/// {"grad_norm": 1.5, "loss": {"!float": "inf"}}, and the inverse.
std::string doubles_text(const std::map<std::string, double>& values);
Result<std::map<std::string, double>> doubles_of(const JsonView& view);

/// Returns the member "line"; empty if it is absent.
Result<std::string> line_at(const JsonView& view);
/// {"step": 900, "generation": 41, "line": "0f..."} or null; [["0f...", 1, 7]]; and the inverse of
/// both, for absent members null or empty. `corrupt` unless is_lineage_of(lineage, generation).
std::string parent_text(const std::optional<CheckpointParent>& parent);
std::string lineage_text(const Lineage& lineage);
Status parse_ancestors(const JsonView& root, std::uint64_t generation,
                       std::optional<CheckpointParent>& parent, Lineage& lineage);

/// Parses an element of "tensors" or "copies".
Result<CheckpointTensor> parse_tensor(const JsonView& view);
Result<TensorCopy> parse_copy(const JsonView& view);

/// Appends the "copies" of a part manifest; none if the member is absent.
Status parse_copies(const JsonView& root, std::vector<TensorCopy>& copies);

/// Appends the "places" of a manifest, and those of its "duplicates" that are in `root`; none if
/// the members are absent.
Status parse_places(const JsonView& root, CheckpointManifest& manifest);

/// Appends "files" and "tensors" without comparing them; manifest_check.h does that.
Status parse_manifest_entries(const JsonView& root, std::vector<CheckpointFile>& files,
                              std::vector<CheckpointTensor>& tensors);

}  // namespace stoker::internal
