/// \file
/// Names of files that a manifest from anywhere may give.
#pragma once

#include <string_view>

namespace stoker {

/// What packed datasets and checkpoints both call theirs.
inline constexpr std::string_view kManifestName = "manifest.json";

/// Whether `name` is the name of a file in the directory itself: not empty, no slash, no control
/// character, neither "." nor "..", UTF-8, at most 255 bytes.
bool is_plain_file_name(std::string_view name);

}  // namespace stoker
