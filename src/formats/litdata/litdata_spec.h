/// \file
/// The shape of a LitData sample: `data_spec`, torch's pytree as JSON (protocol 1). We want the
/// names of its leaves, in order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// A sample that is one leaf, and no dict, list or tuple, has this field.
inline constexpr std::string_view kLitdataItem = "item";

/// {"a": x, "b": [y, (z,)]} gives "a", "b.0", "b.1.0". `corrupt` for what is no such tree;
/// `unsupported` for nodes other than dict, OrderedDict, list and tuple, and for two leaves that
/// would get one name.
Result<std::vector<std::string>> parse_litdata_spec(std::string_view data_spec);

}  // namespace stoker
