#pragma once

#include "formats/shard_format.h"

namespace stoker {

/// The table row of "mds".
const ShardFormat& mds_format();

}  // namespace stoker
