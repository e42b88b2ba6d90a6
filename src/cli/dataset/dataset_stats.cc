#include "cli/dataset/dataset_stats.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <string_view>

#include "formats/json/json.h"
#include "formats/json/strict_json.h"
#include "stoker/dtype.h"

namespace stoker::cli {
namespace {

constexpr std::string_view kClassField = "cls";
constexpr std::size_t kClassesBytesMax = std::size_t{64} << 20;

/// Returns the number of a class: decimal text in a tar, an integer in the other formats.
std::optional<std::int64_t> class_number(const FieldView& field) {
  std::int64_t value = 0;
  if (field.type == FieldType::int64 || field.type == FieldType::array) {
    const Result<Dtype> dtype = field.type == FieldType::int64 ? Result<Dtype>(Dtype::int64)
                                                               : dtype_from_descr(field.dtype);
    if (!dtype.ok() || (*dtype != Dtype::int64 && *dtype != Dtype::int32) ||
        field.bytes.size() != dtype_size_bytes(*dtype))
      return std::nullopt;
    std::int32_t narrow = 0;
    if (*dtype == Dtype::int64) std::memcpy(&value, field.bytes.data(), sizeof value);
    if (*dtype == Dtype::int32) std::memcpy(&narrow, field.bytes.data(), sizeof narrow);
    return *dtype == Dtype::int64 ? value : narrow;
  }
  std::string_view text(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
  while (text.ends_with('\n') || text.ends_with(' ')) text.remove_suffix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The names are only for display: a file that cannot be read is ignored.
std::map<std::int64_t, std::string> read_class_names(const ShardSource& source) {
  std::map<std::int64_t, std::string> names;
  const std::string path = internal::key_in(source.directory(), "classes.json");
  const Result<std::string> text = internal::read_whole(source.store(), path, kClassesBytesMax);
  if (!text.ok()) return names;
  const Result<Json> document = parse_strict_json(*text, path);
  if (!document.ok() || !document->is_object()) return names;
  for (const auto& [name, number] : document->sorted_items())
    if (number.is_number_integer()) names.emplace(number.get_int64(), name);
  return names;
}

std::optional<TokenStats> token_stats(const ShardDataset& dataset, const SizeStats& records) {
  const std::optional<Dtype> dtype = dataset.source().token_dtype();
  if (!dtype) return std::nullopt;
  const std::uint64_t size_bytes = dtype_size_bytes(*dtype);
  return TokenStats{.dtype = std::string(dtype_name(*dtype)),
                    .count = records.total_bytes / size_bytes,
                    .min = records.min_bytes / size_bytes,
                    .max = records.max_bytes / size_bytes};
}

}  // namespace

std::string ClassStats::name_of(std::int64_t number) const {
  const auto found = names.find(number);
  return found == names.end() ? "" : found->second;
}

void SizeStats::add(std::uint64_t size_bytes) {
  min_bytes = count == 0 ? size_bytes : std::min(min_bytes, size_bytes);
  max_bytes = std::max(max_bytes, size_bytes);
  total_bytes += size_bytes;
  ++count;
}

void SizeHistogram::add(std::uint64_t size_bytes) {
  ++counts[static_cast<std::size_t>(std::bit_width(size_bytes))];
}

std::uint64_t SizeHistogram::lowest_in(std::size_t bucket) noexcept {
  return bucket == 0 ? 0 : std::uint64_t{1} << (bucket - 1);
}

Result<DatasetStats> gather_stats(const ShardDataset& dataset, std::uint64_t read_max,
                                  const std::stop_token& stop) {
  DatasetStats stats;
  const std::uint64_t count = dataset.sample_count();
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 4096 == 0 && stop.stop_requested()) return Status(Code::cancelled, "stopped");
    STOKER_ASSIGN(const SampleLocation at, dataset.index().locate(i));
    stats.records.add(at.record.size_bytes);
    stats.histogram.add(at.record.size_bytes);
  }
  stats.read_count = std::min(count, read_max);
  SampleRecord sample;
  for (std::uint64_t i = 0; i < stats.read_count; ++i) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped");
    // Evenly spread, without overflow: quotient and remainder separately.
    const std::uint64_t step = count / stats.read_count;
    const std::uint64_t extra = count % stats.read_count;
    STOKER_TRY(dataset.read(i * step + i * extra / stats.read_count, sample));
    for (const FieldView& field : sample.view().fields) {
      stats.fields[std::string(field.name)].add(field.bytes.size());
      if (field.name != kClassField) continue;
      if (const std::optional<std::int64_t> number = class_number(field))
        ++stats.classes.counts[*number];
    }
  }
  stats.tokens = token_stats(dataset, stats.records);
  if (!stats.classes.counts.empty()) stats.classes.names = read_class_names(dataset.source());
  return stats;
}

}  // namespace stoker::cli
