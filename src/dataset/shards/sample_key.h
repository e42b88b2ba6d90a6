/// \file
/// The rule for a sample's key.
#pragma once

#include <string_view>

#include "formats/shard_format.h"

namespace stoker {

/// The field that contains the key in formats without keys.
inline constexpr std::string_view kKeyField = "__key__";

/// The sample's own key: that of the format, else the field kKeyField; empty if it has neither.
std::string_view key_of_sample(const SampleView& sample) noexcept;

}  // namespace stoker
