#pragma once

#include "formats/shard_format.h"

namespace stoker {

/// The table row of "litdata", which is read-only.
const ShardFormat& litdata_format();

}  // namespace stoker
