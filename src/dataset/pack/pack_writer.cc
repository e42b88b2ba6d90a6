#include "dataset/pack/pack_writer.h"

#include <fmt/format.h>

#include "dataset/shards/sample_key.h"
#include "formats/table/shard_formats.h"

namespace stoker {
Status prepare_token_writer(const PackInput& input, PackWriterOptions& options) {
  const std::optional<Dtype> dtype = input.token_dtype();
  if (!dtype)
    return Status(
        Code::invalid_argument,
        fmt::format("--format {} is for samples that are one array each (of .npy, .bin, "
                    "Megatron, or any other with one field of numbers); these are not, or their "
                    "dtype is not known: use tar, mds or tfrecord",
                    options.format->written_as));
  options.shard.dtype = *dtype;
  // Rows from Python cannot be read here; each shard then uses the size of its first row.
  InputSample first;
  if (input.read(0, first).ok() && fit_fields(*options.format, first.view).ok() &&
      first.view.fields.size() == 1)
    options.shard.row_bytes = first.view.fields[0].bytes.size();
  return {};
}

Result<PackWriter> make_pack_writer(const PackWriterOptions& options, const std::string& name,
                                    ByteSink& sink) {
  ShardWriterOptions shard = options.shard;
  shard.shard_name = name;
  shard.key_field = kKeyField;
  PackWriter made;
  STOKER_ASSIGN(made.writer, options.format->make_writer(shard, sink));
  made.mds = dynamic_cast<MdsWriter*>(made.writer.get());
  return made;
}

}  // namespace stoker
