#include "dataset/input/input_memory.h"

#include "formats/mds/mds_encoding.h"
#include "formats/mds/mds_format.h"
#include "formats/table/shard_formats.h"

namespace stoker {

void IngestedSample::view(SampleView& out) const {
  out.clear();
  out.key = key;
  for (const Field& field : fields)
    out.fields.push_back({.name = field.name,
                          .bytes = field.bytes,
                          .type = field.type,
                          .dtype = field.dtype,
                          .shape = field.shape});
}

std::uint64_t IngestedSample::size_bytes() const {
  std::uint64_t size_bytes = 0;
  for (const Field& field : fields) size_bytes += field.bytes.size();
  return size_bytes;
}

std::string IngestedSample::describe(std::uint64_t number) const {
  return "sample " + std::to_string(number) + " ('" + key + "')";
}

Result<PackInput::Extent> MemoryInput::extent(std::uint64_t sample) const {
  return Extent{.size_bytes = samples_[sample].size_bytes(),
                .field_count = samples_[sample].fields.size()};
}

Status MemoryInput::read(std::uint64_t sample, InputSample& out) const {
  samples_[sample].view(out.view);
  return {};
}

std::string MemoryInput::describe(std::uint64_t sample) const {
  return samples_[sample].describe(first_ + sample);
}

Result<std::vector<std::pair<std::string, std::string>>> MemoryInput::mds_columns() const {
  std::vector<std::pair<std::string, std::string>> columns;
  InputSample first;
  STOKER_TRY(read(0, first));
  STOKER_TRY(fit_fields(mds_format(), first.view));
  for (const FieldView& field : first.view.fields) {
    Result<MdsEncoding> encoding = choose_mds_encoding(field);
    if (!encoding.ok())
      return encoding.status().with_context(describe(0) + ": field '" + std::string(field.name) +
                                            "'");
    columns.emplace_back(field.name, encoding->text);
  }
  return columns;
}

std::optional<Dtype> MemoryInput::token_dtype() const {
  const std::vector<IngestedSample::Field>& fields = samples_.front().fields;
  if (fields.size() != 1 || fields[0].type != FieldType::array) return std::nullopt;
  const Result<Dtype> dtype = dtype_from_descr(fields[0].dtype);
  return dtype.ok() ? std::optional(*dtype) : std::nullopt;
}

}  // namespace stoker
