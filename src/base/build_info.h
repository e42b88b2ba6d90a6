/// \file
/// What a program was built from, and with what.
#pragma once

#include <span>
#include <string_view>

namespace stoker {

struct LibraryVersion {
  std::string_view name;
  std::string_view version;  ///< Of the headers; "unknown" if the library does not say.
};

struct BuildInfo {
  std::string_view version;
  std::string_view
      revision;  ///< Of git: "6be921f18a22", then "+" if sources were changed; "unknown".
  std::string_view compiler;  ///< "GNU 12.2.0".
  std::string_view platform;  ///< "Linux x86_64".
  std::span<const LibraryVersion> libraries;
};

/// Not in the library of the layer: only programs that link stoker::build_info are built again when
/// the revision changes (cmake/StokerBuildInfo.cmake).
BuildInfo build_info() noexcept;

}  // namespace stoker
