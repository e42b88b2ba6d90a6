#pragma once

#include <memory>
#include <string>

#include "dataset/input/input.h"
#include "formats/mds/mds_writer.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// What all shards of one pack have in common.
struct PackWriterOptions {
  const ShardFormat* format = nullptr;
  ShardWriterOptions shard = {};  ///< But for the name and the field for keys.
};

struct PackWriter {
  std::unique_ptr<ShardWriter> writer;
  /// The same as `writer` if it writes MDS: it writes nothing before finish(), and knows what
  /// index.json says of the shard. Null otherwise.
  MdsWriter* mds = nullptr;
};

/// What the token formats must know of the samples. `invalid_argument` if they are no arrays.
Status prepare_token_writer(const PackInput& source, PackWriterOptions& options);

/// A writer for the shard `name`. Formats without keys get the key as a field, kKeyField. A sidecar
/// of Megatron's writer has the suffix ".idx", which replaces ".bin".
Result<PackWriter> make_pack_writer(const PackWriterOptions& options, const std::string& name,
                                    ByteSink& sink);

}  // namespace stoker
