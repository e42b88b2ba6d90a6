#pragma once

#include "formats/shard_format.h"

namespace stoker {

/// The table row of "tfrecord".
const ShardFormat& tfrecord_format();

}  // namespace stoker
