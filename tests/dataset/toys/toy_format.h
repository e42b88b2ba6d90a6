#pragma once

#include "formats/shard_format.h"

namespace stoker::testing {

/// A format that nobody needs, to show what one takes: this row, the parser behind it, and its
/// tests. Shards are "TOYSHARD", then records one after the other:
///
///     u32 size of what follows | u8 size of the key | key | fields
///     field: u8 size of the name | name | u32 size of the bytes | bytes
const ShardFormat& toy_format();

}  // namespace stoker::testing
