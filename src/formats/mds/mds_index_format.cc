// The writing part of mds_index.h: byte for byte the text of Python's json.dumps(value,
// sort_keys=True), because the length of a shard's header determines its offsets.
#include <fmt/format.h>

#include "formats/json/json.h"
#include "formats/mds/mds_index.h"

namespace stoker {
namespace {

std::string quoted(const std::string& text) {
  // Both write ASCII with the same escapes. A parsed index and a writer's options contain only
  // valid UTF-8.
  return quote_json(text, /*is_ascii=*/true);
}

template <typename List, typename Print>
std::string listed(const List& list, Print print) {
  std::string text = "[";
  for (const auto& element : list) {
    if (text.size() > 1) text += ", ";
    text += print(element);
  }
  return text + "]";
}

/// The members of a configuration before (config_head) and after (config_tail) those that only an
/// index has.
std::string config_head(const MdsConfig& config) {
  return fmt::format(
      R"("column_encodings": {}, "column_names": {}, "column_sizes": {}, "compression": {}, )"
      R"("format": "mds", "hashes": {}, )",
      listed(config.columns, [](const MdsColumn& c) { return quoted(c.encoding.text); }),
      listed(config.columns, [](const MdsColumn& c) { return quoted(c.name); }),
      listed(config.columns,
             [](const MdsColumn& c) {
               return c.encoding.fixed_bytes ? fmt::to_string(*c.encoding.fixed_bytes) : "null";
             }),
      config.compression ? quoted(*config.compression) : "null", listed(config.hashes, quoted));
}

std::string config_tail(const MdsConfig& config) {
  return fmt::format(R"("size_limit": {}, "version": 2)",
                     config.size_limit_bytes ? fmt::to_string(*config.size_limit_bytes) : "null");
}

std::string file_text(const MdsFile& file) {
  std::string hashes;
  for (const auto& [algorithm, digest] : file.hashes) {
    if (!hashes.empty()) hashes += ", ";
    hashes += fmt::format("{}: {}", quoted(algorithm), quoted(digest));
  }
  return fmt::format(R"({{"basename": {}, "bytes": {}, "hashes": {{{}}}}})", quoted(file.basename),
                     file.size_bytes, hashes);
}

}  // namespace

std::string format_mds_config(const MdsConfig& config) {
  return fmt::format("{{{}{}}}", config_head(config), config_tail(config));
}

std::string format_mds_index(const std::vector<MdsShard>& shards) {
  const auto shard_text = [](const MdsShard& shard) {
    return fmt::format(R"({{{}"raw_data": {}, "samples": {}, {}, "zip_data": {}}})",
                       config_head(shard.config), file_text(shard.raw), shard.sample_count,
                       config_tail(shard.config), shard.zip ? file_text(*shard.zip) : "null");
  };
  return fmt::format(R"({{"shards": {}, "version": 2}})", listed(shards, shard_text));
}

}  // namespace stoker
