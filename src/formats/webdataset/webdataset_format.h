#pragma once

#include "formats/shard_format.h"

namespace stoker {

/// The table row of "tar".
const ShardFormat& webdataset_format();

}  // namespace stoker
