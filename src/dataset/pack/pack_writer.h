#pragma once

#include <memory>
#include <string>

#include "dataset/input/input.h"
#include "formats/mds/mds_writer.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// Options that all shards of one pack share.
struct PackWriterOptions {
  const ShardFormat* format = nullptr;
  ShardWriterOptions shard = {};  ///< Without the name and the key field.
};

struct PackWriter {
  std::unique_ptr<ShardWriter> writer;
  /// The same object as `writer` if it writes MDS: it writes nothing before finish(), and has the
  /// shard's entry for index.json. Null otherwise.
  MdsWriter* mds = nullptr;
};

/// Sets what the token formats need to know of the samples. `invalid_argument` if they are not
/// arrays.
Status prepare_token_writer(const PackInput& input, PackWriterOptions& options);

/// Makes a writer for the shard `name`. Formats without keys get the key as a field, kKeyField. A
/// sidecar of Megatron's writer has the suffix ".idx", which replaces ".bin".
Result<PackWriter> make_pack_writer(const PackWriterOptions& options, const std::string& name,
                                    ByteSink& sink);

}  // namespace stoker
