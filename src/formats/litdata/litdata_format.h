#pragma once

#include "formats/shard_format.h"

namespace stoker {

/// The row of "litdata", which is only read.
const ShardFormat& litdata_format();

}  // namespace stoker
