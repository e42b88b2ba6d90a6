/// \file
/// A profile of ~/.aws: what both of its files say about it.
#pragma once

#include <optional>

#include "store/credentials/key_text.h"

namespace stoker {

/// Returns the settings of a profile, those of the credentials file first; nothing if neither file
/// has it. A file that does not exist is as good as an empty one.
Result<std::optional<IniSection>> read_profile(const std::string& credentials_file,
                                               const std::string& config_file,
                                               const std::string& profile);

}  // namespace stoker
