#include "formats/webdataset/webdataset_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "formats/arrays/field_fit.h"
#include "formats/arrays/npy.h"
#include "formats/webdataset/webdataset_names.h"
#include "formats/webdataset/webdataset_reader.h"
#include "formats/webdataset/webdataset_writer.h"

namespace stoker {
namespace {

using namespace internal;

/// Formats a number with enough digits to read the same number back.
std::string text_of(const FieldView& field) {
  if (field.type == FieldType::int64)
    return fmt::format("{}", load_at<std::int64_t>(field.bytes, 0));
  if (field.type == FieldType::float32) return fmt::format("{}", load_at<float>(field.bytes, 0));
  return fmt::format("{}", load_at<double>(field.bytes, 0));
}

/// One number becomes text; several numbers and arrays become a NumPy file: field "x" becomes
/// "x.npy".
Status fit_numbers(SampleView& sample, FieldView& field) {
  STOKER_ASSIGN(const Dtype dtype, dtype_of(field));
  if (is_number(field) && field.bytes.size() == dtype_size_bytes(dtype)) {
    const std::string_view text = sample.keep(text_of(field));
    field = {.name = field.name, .bytes = std::as_bytes(std::span(text)), .type = FieldType::text};
    return {};
  }
  const std::uint64_t count = field.bytes.size() / dtype_size_bytes(dtype);
  const std::span<const std::uint64_t> shape =
      field.type == FieldType::array ? field.shape : std::span(&count, 1);
  STOKER_ASSIGN(std::vector<std::byte> npy, make_npy_head(dtype, shape));
  npy.insert(npy.end(), field.bytes.begin(), field.bytes.end());
  const std::vector<std::byte>& kept = sample.storage.emplace_back(std::move(npy));
  std::string name(field.name);
  if (!name.ends_with("npy")) name += ".npy";
  field = {.name = sample.keep(name), .bytes = kept, .type = FieldType::bytes};
  return {};
}

/// Readers convert the names in a tar to lower case.
void lower_name(SampleView& sample, FieldView& field) {
  if (is_lower_case(field.name)) return;
  std::string name(field.name);
  std::transform(name.begin(), name.end(), name.begin(), to_lower_case);
  field.name = sample.keep(name);
}

Status fit_webdataset(SampleView& sample, FieldView& field) {
  lower_name(sample, field);
  if (!is_number(field) && field.type != FieldType::array) return {};
  return fit_numbers(sample, field);
}

}  // namespace

// Tar had no magic before "ustar", and an archive without members is only blocks of zeros: those
// are recognized by their name.
const ShardFormat& webdataset_format() {
  static constexpr ShardFormat kFormat = {
      .name = "tar",
      .written_as = "tar",
      .has_keys = true,
      .has_name_types = true,
      .is_shard_name = [](std::string_view name) { return name.ends_with(".tar"); },
      .is_shard_head =
          [](std::span<const std::byte> head) {
            return head.size() >= 512 && std::memcmp(head.data() + 257, "ustar", 5) == 0;
          },
      .make_reader = [] { return make_webdataset_reader(); },
      .make_writer = [](const ShardWriterOptions& /*options*/, ByteSink& sink)
          -> Result<std::unique_ptr<ShardWriter>> { return make_webdataset_writer(sink); },
      .fit = fit_webdataset,
      .field_overhead_bytes = 1024,
      .ending = "tar"};
  return kFormat;
}

}  // namespace stoker
