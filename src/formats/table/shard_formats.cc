#include "formats/table/shard_formats.h"

#include <algorithm>
#include <vector>

#include "formats/arrays/array_formats.h"
#include "formats/json/strict_json.h"
#include "formats/litdata/litdata_format.h"
#include "formats/mds/mds_format.h"
#include "formats/tfrecord/tfrecord_format.h"
#include "formats/webdataset/webdataset_format.h"

namespace stoker {
namespace {

std::vector<const ShardFormat*>& table() {
  static std::vector<const ShardFormat*> formats = {
      &webdataset_format(), &tfrecord_format(), &mds_format(),
      &litdata_format(),    &megatron_format(), &npy_format(),
      &raw_format(),        &counted_format(),  &shard001_format()};
  return formats;
}

/// Returns "tar, mds or tfrecord": the formats with a non-empty `name_of`.
std::string names(std::string_view ShardFormat::* name_of, std::string_view last,
                  bool with_notes = false) {
  std::vector<std::string> found;
  for (const ShardFormat* const format : table()) {
    if ((format->*name_of).empty()) continue;
    std::string& name = found.emplace_back(format->*name_of);
    if (with_notes && !format->written_note.empty())
      name.append(" (").append(format->written_note).append(")");
  }
  std::string text;
  for (const std::string& name : found) {
    if (!text.empty()) text.append(&name == &found.back() ? last : ", ");
    text.append(name);
  }
  return text;
}

}  // namespace

std::span<const ShardFormat* const> shard_formats() {
  return table();
}

void add_shard_format(const ShardFormat& format) {
  table().push_back(&format);
}

const ShardFormat* find_shard_format(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &ShardFormat::name);
  return found == table().end() ? nullptr : *found;
}

Result<const ShardFormat*> parse_shard_format(std::string_view name) {
  if (const ShardFormat* const format = find_shard_format(name)) return format;
  return Status(Code::invalid_argument, "format " + quote_for_message(name) + ": " +
                                            list_shard_formats(" and ") + " are known");
}

Result<const ShardFormat*> parse_written_format(std::string_view name) {
  const auto found = std::ranges::find(table(), name, &ShardFormat::written_as);
  if (found != table().end() && !name.empty()) return *found;
  return Status(Code::invalid_argument, "format " + quote_for_message(name) +
                                            " cannot be written: " + list_written_formats(" or "));
}

const ShardFormat& default_written_format(bool is_array) {
  return **std::ranges::find_if(table(), [&](const ShardFormat* format) {
    return !format->written_as.empty() && format->is_array == is_array;
  });
}

std::string list_shard_formats(std::string_view last) {
  return names(&ShardFormat::name, last);
}

std::string list_written_formats(std::string_view last) {
  return names(&ShardFormat::written_as, last);
}

std::string describe_written_formats() {
  return names(&ShardFormat::written_as, " or ", /*with_notes=*/true);
}

const ShardFormat* recognise_shard_head(std::span<const std::byte> head) {
  // Formats without a magic (TFRecord: a checksum) are tried after those with one.
  for (const bool has_checksums : {false, true})
    for (const ShardFormat* const format : table())
      if (format->has_checksums == has_checksums && format->is_shard_head != nullptr &&
          format->is_shard_head(head))
        return format;
  return nullptr;
}

Status fit_fields(const ShardFormat& format, SampleView& sample) {
  if (format.fit == nullptr) return {};
  for (FieldView& field : sample.fields)
    if (const Status status = format.fit(sample, field); !status.ok())
      return status.with_context("field " + quote_for_message(field.name));
  return {};
}

}  // namespace stoker
