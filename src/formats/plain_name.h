/// \file
/// File names in untrusted manifests.
#pragma once

#include <string_view>

namespace stoker {

/// The name of the manifest of packed datasets and of checkpoints.
inline constexpr std::string_view kManifestName = "manifest.json";

/// Whether `name` names a file directly in the directory: not empty, no slash, no control
/// character, neither "." nor "..", valid UTF-8, at most 255 bytes.
bool is_plain_file_name(std::string_view name);

}  // namespace stoker
