/// \file
/// The library's version. CMakeLists.txt reads it from here, and so does the Python package.
#pragma once

#define STOKER_VERSION "0.1.0"

namespace stoker {

inline constexpr const char* kVersion = STOKER_VERSION;

}  // namespace stoker
