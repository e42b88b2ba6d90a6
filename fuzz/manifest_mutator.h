#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace stoker {

/// Changes one thing in the text of a manifest: a number, a string, a reference, a member removed,
/// doubled, renamed or put deeper; or a tensor's type, shape and range together, so that the
/// manifest still agrees with itself. Empty if the text is no JSON. The same seed makes the same
/// change.
std::string mutate_manifest(std::string_view text, std::uint32_t seed);

}  // namespace stoker
