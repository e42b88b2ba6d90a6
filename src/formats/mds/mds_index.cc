// The reading part of mds_index.h; mds_index_format.cc writes.
#include "formats/mds/mds_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_set>

#include "formats/json/strict_json.h"
#include "formats/plain_name.h"

namespace stoker {
namespace {

/// Limit of the configuration in a shard's header, far above any real one.
constexpr std::size_t kConfigBytesMax = std::size_t{16} << 20;
constexpr std::size_t kFileNameBytesMax = 128;
constexpr std::size_t kPathBytesMax = 1024;  ///< With the directories of a merged index.

Result<std::vector<std::string>> text_list(const JsonView& list) {
  STOKER_ASSIGN(const std::size_t size, list.array_size());
  std::vector<std::string> texts;
  texts.reserve(size);
  for (std::size_t i = 0; i < size; ++i) {
    STOKER_ASSIGN(std::string text, list.element(i).text());
    texts.push_back(std::move(text));
  }
  return texts;
}

Status check_size(const JsonView& size, const MdsEncoding& encoding) {
  if (size.is_null() && !encoding.fixed_bytes) return {};
  if (!size.is_null() && encoding.fixed_bytes) {
    STOKER_ASSIGN(const std::uint64_t given, size.u64());
    if (given == *encoding.fixed_bytes) return {};
  }
  return size.corrupt(
      fmt::format("encoding {} takes {}", quote_for_message(encoding.text),
                  encoding.fixed_bytes ? fmt::to_string(*encoding.fixed_bytes) : "null, any size"));
}

Result<std::vector<MdsColumn>> parse_columns(const JsonView& object) {
  STOKER_ASSIGN(const JsonView name_list, object.at("column_names"));
  STOKER_ASSIGN(const JsonView encoding_list, object.at("column_encodings"));
  STOKER_ASSIGN(const JsonView size_list, object.at("column_sizes"));
  STOKER_ASSIGN(std::vector<std::string> names, text_list(name_list));
  STOKER_ASSIGN(const std::vector<std::string> encodings, text_list(encoding_list));
  STOKER_ASSIGN(const std::size_t size_count, size_list.array_size());
  if (names.size() != encodings.size() || names.size() != size_count) {
    return object.corrupt(fmt::format("{} column_names, {} column_encodings, {} column_sizes",
                                      names.size(), encodings.size(), size_count));
  }
  std::vector<MdsColumn> columns;
  std::set<std::string_view> seen;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!seen.insert(names[i]).second) {
      return name_list.element(i).corrupt(
          fmt::format("duplicate column {}", quote_for_message(names[i])));
    }
    Result<MdsEncoding> encoding = parse_mds_encoding(encodings[i]);
    if (!encoding.ok()) {
      return encoding.status().with_context(fmt::format(
          "{}: column {}", encoding_list.element(i).path(), quote_for_message(names[i])));
    }
    STOKER_TRY(check_size(size_list.element(i), *encoding));
    columns.push_back({names[i], *std::move(encoding)});
  }
  return columns;
}

Result<MdsConfig> parse_config(const JsonView& object) {
  STOKER_ASSIGN(const JsonView version, object.at("version"));
  STOKER_ASSIGN(const std::uint64_t number, version.u64());
  if (number != 2) {
    return Status(Code::unsupported, fmt::format("{}: {}, only 2 is read", version.path(), number));
  }
  STOKER_ASSIGN(const JsonView format, object.at("format"));
  STOKER_ASSIGN(const std::string format_name, format.text());
  if (format_name != "mds") {
    return Status(Code::unsupported, fmt::format("{}: {}, only \"mds\" is read", format.path(),
                                                 quote_for_message(format_name)));
  }
  MdsConfig config;
  STOKER_ASSIGN(config.columns, parse_columns(object));
  STOKER_ASSIGN(const JsonView compression, object.at_or_null("compression"));
  if (!compression.is_null()) {
    STOKER_ASSIGN(config.compression, compression.text());
  }
  STOKER_ASSIGN(const JsonView hashes, object.at("hashes"));
  STOKER_ASSIGN(config.hashes, text_list(hashes));
  config.size_limit_bytes.reset();
  STOKER_ASSIGN(const JsonView size_limit, object.at_or_null("size_limit"));
  if (!size_limit.is_null()) {
    STOKER_ASSIGN(config.size_limit_bytes, size_limit.u64());
  }
  return config;
}

/// A merged index names its files with their directories: "en/shard.00000.mds".
Result<std::string> parse_basename(const JsonView& value) {
  STOKER_ASSIGN(std::string name, value.text());
  const std::size_t slash = name.rfind('/');
  const std::string_view file = std::string_view(name).substr(slash + 1);  // npos + 1 is 0
  bool is_inside = true;
  for (std::size_t at = 0; slash != std::string::npos && at <= slash;) {
    const std::size_t end = name.find('/', at);
    is_inside = is_inside && is_plain_file_name(std::string_view(name).substr(at, end - at));
    at = end + 1;
  }
  const bool plain = std::ranges::all_of(file, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
  if (!is_inside || !plain || file.empty() || file.size() > kFileNameBytesMax ||
      name.size() > kPathBytesMax || file.find("..") != std::string::npos || file == ".") {
    return value.corrupt(fmt::format(
        "{} is not a valid file name below the dataset: 1 to {} of [A-Za-z0-9._-], no \"..\"",
        quote_for_message(name), kFileNameBytesMax));
  }
  return name;
}

Result<MdsFile> parse_file(const JsonView& object, const std::vector<std::string>& algorithms) {
  MdsFile file;
  STOKER_ASSIGN(const JsonView basename, object.at("basename"));
  STOKER_ASSIGN(file.basename, parse_basename(basename));
  STOKER_ASSIGN(const JsonView size, object.at("bytes"));
  STOKER_ASSIGN(file.size_bytes, size.u64(UINT32_MAX));
  STOKER_ASSIGN(const JsonView hashes, object.at("hashes"));
  if (!hashes.value().is_object()) return hashes.corrupt("not an object");
  for (const std::string& algorithm : algorithms) {
    STOKER_ASSIGN(const JsonView digest, hashes.at(algorithm));
    STOKER_ASSIGN(std::string hex, digest.text());
    file.hashes.emplace_back(algorithm, std::move(hex));
  }
  if (hashes.value().size() != algorithms.size()) {
    return hashes.corrupt("has other algorithms than the shard's list of hashes");
  }
  return file;
}

Result<MdsShard> parse_shard(const JsonView& object) {
  MdsShard shard;
  STOKER_ASSIGN(shard.config, parse_config(object));
  std::vector<std::string>& algorithms = shard.config.hashes;
  if (!std::ranges::is_sorted(algorithms) ||
      std::ranges::adjacent_find(algorithms) != algorithms.end()) {
    return object.corrupt("the hashes are not sorted, or one is a duplicate");
  }
  STOKER_ASSIGN(const JsonView raw, object.at("raw_data"));
  STOKER_ASSIGN(shard.raw, parse_file(raw, algorithms));
  STOKER_ASSIGN(const JsonView zip, object.at_or_null("zip_data"));
  if (zip.is_null() == shard.config.compression.has_value()) {
    return zip.corrupt("there is compressed data if and only if there is a compression");
  }
  if (!zip.is_null()) {
    STOKER_ASSIGN(shard.zip, parse_file(zip, algorithms));
  }
  STOKER_ASSIGN(const JsonView samples, object.at("samples"));
  STOKER_ASSIGN(shard.sample_count, samples.u64(UINT32_MAX));
  return shard;
}

}  // namespace

Result<MdsConfig> parse_mds_config(std::string_view text) {
  const StrictJsonLimits limits = {.text_bytes_max = kConfigBytesMax};
  STOKER_ASSIGN(const Json document, parse_strict_json(text, "configuration", limits));
  return parse_config(JsonView(document, "configuration: "));
}

Result<std::vector<MdsShard>> parse_mds_index(std::string_view text) {
  const StrictJsonLimits limits = {.text_bytes_max = std::size_t{256} << 20};
  STOKER_ASSIGN(const Json document, parse_strict_json(text, "index.json", limits));
  const JsonView root(document, "index.json: ");
  STOKER_ASSIGN(const JsonView version, root.at("version"));
  STOKER_ASSIGN(const std::uint64_t number, version.u64());
  if (number != 2) {
    return Status(Code::unsupported, fmt::format("{}: {}, only 2 is read", version.path(), number));
  }
  STOKER_ASSIGN(const JsonView list, root.at("shards"));
  STOKER_ASSIGN(const std::size_t count, list.array_size());
  std::vector<MdsShard> shards;
  shards.reserve(count);
  std::unordered_set<std::string> basenames;
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(MdsShard shard, parse_shard(list.element(i)));
    for (const MdsFile* file : {&shard.raw, shard.zip ? &*shard.zip : nullptr}) {
      if (file == nullptr || basenames.insert(file->basename).second) continue;
      return list.element(i).corrupt(
          fmt::format("duplicate file {}", quote_for_message(file->basename)));
    }
    shards.push_back(std::move(shard));
  }
  return shards;
}

bool same_mds_columns(const std::vector<MdsColumn>& left, const std::vector<MdsColumn>& right) {
  return std::ranges::equal(left, right, [](const MdsColumn& a, const MdsColumn& b) {
    return a.name == b.name && a.encoding.text == b.encoding.text;
  });
}

}  // namespace stoker
