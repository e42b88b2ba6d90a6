#include "formats/mds/mds_format.h"

#include <fmt/format.h>

#include "formats/arrays/field_fit.h"
#include "formats/mds/mds_writer.h"

namespace stoker {
namespace {

using namespace internal;

/// MDS has no booleans: one becomes an integer, an array of them an array of uint8.
Status fit_mds(SampleView& sample, FieldView& field) {
  if (field.type != FieldType::array || field.dtype != dtype_descr(Dtype::boolean)) return {};
  if (!field.shape.empty() || field.bytes.size() != 1) {
    field.dtype = dtype_descr(Dtype::uint8);
    return {};
  }
  const std::int64_t value = std::to_integer<std::uint8_t>(field.bytes[0]) != 0 ? 1 : 0;
  field = {.name = field.name, .bytes = sample.keep_number(&value), .type = FieldType::int64};
  return {};
}

Result<std::unique_ptr<ShardWriter>> make_writer(const ShardWriterOptions& options,
                                                 ByteSink& sink) {
  MdsWriter::Options mds{.columns = options.columns,
                         .size_limit_bytes = options.size_limit_bytes,
                         .basename = options.shard_name,
                         .key_field = options.key_field};
  mds.columns.emplace_back(options.key_field, "str");
  STOKER_ASSIGN(std::unique_ptr<MdsWriter> writer, MdsWriter::make(std::move(mds), sink));
  return std::unique_ptr<ShardWriter>(std::move(writer));
}

}  // namespace

const ShardFormat& mds_format() {
  static constexpr ShardFormat kFormat = {
      .name = "mds",
      .written_as = "mds",
      .has_columns = true,
      .has_index_json = true,
      .keeps_folders = true,
      .make_writer = make_writer,
      .fit = fit_mds,
      // Offsets have 32 bits; the difference is for the header.
      .shard_bytes_max = (std::uint64_t{1} << 32) - (std::uint64_t{1} << 24),
      .ending = "mds",
      .shard_name = [](std::uint64_t shard) { return fmt::format("shard.{:05}.mds", shard); }};
  return kFormat;
}

}  // namespace stoker
