/// \file
/// The version of the library. CMakeLists.txt and the Python package read it from this file.
#pragma once

#define STOKER_VERSION "0.1.0"

namespace stoker {

inline constexpr const char* kVersion = STOKER_VERSION;

}  // namespace stoker
