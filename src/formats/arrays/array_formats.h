#pragma once

#include "formats/shard_format.h"

namespace stoker {

/// The table rows of the formats whose samples are arrays.
const ShardFormat& megatron_format();
const ShardFormat& npy_format();
const ShardFormat& raw_format();
const ShardFormat& counted_format();
const ShardFormat& shard001_format();

}  // namespace stoker
