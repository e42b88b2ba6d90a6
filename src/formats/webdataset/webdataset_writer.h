#pragma once

#include <memory>

#include "formats/shard_format.h"

namespace stoker {

/// Writes a WebDataset shard to `sink`, which outlives the writer: plain ustar, with a PAX header
/// only for what ustar cannot represent, fields sorted by name, no times and no owners, so that the
/// same samples give the same bytes. After a failure of the sink every call returns that failure.
std::unique_ptr<ShardWriter> make_webdataset_writer(ByteSink& sink);

}  // namespace stoker
