#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dataset/input/input.h"
#include "formats/dtype.h"
#include "formats/mds/mds_writer.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// What all shards of one pack have in common.
struct PackWriterOptions {
  std::string format;
  std::vector<std::pair<std::string, std::string>> mds_columns = {};  ///< Without the key.
  std::uint64_t mds_size_limit_bytes = 0;
  Dtype token_dtype = Dtype::int32;
  /// Of each row of "counted" and "shard001"; 0: of a shard's first.
  std::uint64_t row_bytes = 0;
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
