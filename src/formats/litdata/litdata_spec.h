/// \file
/// The structure of a LitData sample: `data_spec`, a torch pytree as JSON (protocol 1). Only the
/// names of its leaves are used, in order.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// The field name of a sample that is a single leaf, and not a dict, list or tuple.
inline constexpr std::string_view kLitdataItem = "item";

/// {"a": x, "b": [y, (z,)]} gives "a", "b.0", "b.1.0". `corrupt` if this is not such a tree;
/// `unsupported` for nodes other than dict, OrderedDict, list and tuple, and for two leaves that
/// would get the same name.
Result<std::vector<std::string>> parse_litdata_spec(std::string_view data_spec);

}  // namespace stoker
