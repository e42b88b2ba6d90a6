/// \file
/// The one rule for what a sample is called.
#pragma once

#include <string_view>

#include "formats/shard_format.h"

namespace stoker {

/// The field that carries the key in formats that have none.
inline constexpr std::string_view kKeyField = "__key__";

/// The key that a sample has of its own: the format's, or that field; empty if neither.
std::string_view key_of_sample(const SampleView& sample) noexcept;

}  // namespace stoker
