#include "formats/litdata/litdata_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "formats/json/strict_json.h"
#include "formats/litdata/litdata_spec.h"

namespace stoker {
namespace {

Status unsupported(const JsonView& at, std::string_view message) {
  return {Code::unsupported, fmt::format("{}: {}", at.path(), message)};
}

Result<LitdataIndex::Compression> parse_compression(const JsonView& config) {
  using Compression = LitdataIndex::Compression;
  STOKER_ASSIGN(const JsonView name, config.at_or_null("compression"));
  if (name.is_null()) return Compression::none;
  STOKER_ASSIGN(const std::string codec, name.text());
  if (codec != "zstd" && !codec.starts_with("zstd:")) {
    return unsupported(name, fmt::format("{}, only zstd is read", quote_for_message(codec)));
  }
  STOKER_ASSIGN(const JsonView level, config.at_or_null("compression_level"));
  if (level.is_null()) return Compression::chunk;
  STOKER_ASSIGN(const std::string text, level.text());
  if (text == "chunk") return Compression::chunk;
  if (text == "batch") return Compression::batch;
  if (text == "sample") return Compression::sample;
  return level.corrupt(fmt::format("{} is none of chunk, batch, sample", quote_for_message(text)));
}

Status parse_leaves(const JsonView& config, LitdataIndex& index) {
  STOKER_ASSIGN(const JsonView spec, config.at("data_spec"));
  STOKER_ASSIGN(const std::string spec_text, spec.text());
  Result<std::vector<std::string>> names = parse_litdata_spec(spec_text);
  if (!names.ok()) return names.status().with_context(spec.path());
  STOKER_ASSIGN(const JsonView formats, config.at("data_format"));
  STOKER_ASSIGN(const std::size_t count, formats.array_size());
  if (count != names->size()) {
    return formats.corrupt(
        fmt::format("{} formats for the {} leaves of data_spec", count, names->size()));
  }
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(const std::string format, formats.element(i).text());
    Result<LitdataLeaf> leaf = parse_litdata_format((*names)[i], format);
    if (!leaf.ok()) {
      return leaf.status().with_context(
          fmt::format("{}: leaf {}", formats.element(i).path(), quote_for_message((*names)[i])));
    }
    index.leaves.push_back(*std::move(leaf));
  }
  // Before 0.2.21 the index did not name a loader, and the writer chose: a single 1-D tensor was
  // stored as tokens.
  STOKER_ASSIGN(const JsonView loader, config.at_or_null("item_loader"));
  if (loader.is_null() && count == 1) {
    STOKER_ASSIGN(const std::string format, formats.element(0).text());
    index.is_tokens = format.starts_with("no_header_tensor:");
  }
  if (index.is_tokens && (count != 1 || index.leaves[0].kind != LitdataLeaf::Kind::flat_array)) {
    return formats.corrupt("tokens are one array without header");
  }
  return {};
}

Status parse_config(const JsonView& config, LitdataIndex& index) {
  STOKER_ASSIGN(const JsonView encryption, config.at_or_null("encryption"));
  if (!encryption.is_null()) {
    return unsupported(encryption, "the chunks are encrypted; write the dataset without it");
  }
  STOKER_ASSIGN(const JsonView loader, config.at_or_null("item_loader"));
  if (!loader.is_null()) {
    STOKER_ASSIGN(const std::string name, loader.text());
    index.is_tokens = name == "TokensLoader";
    if (!index.is_tokens && name != "PyTreeLoader") {
      return unsupported(loader, fmt::format("{}, only PyTreeLoader and TokensLoader are read",
                                             quote_for_message(name)));
    }
  }
  STOKER_ASSIGN(index.compression, parse_compression(config));
  return parse_leaves(config, index);
}

/// Same rule as for MDS, with ':' allowed: "chunk-0-0.zstd:4.bin".
bool is_filename(const std::string& name) {
  const bool plain = std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == ':';
  });
  return plain && !name.empty() && name.size() <= 128 && name != "." &&
         name.find("..") == std::string::npos;
}

Result<LitdataChunk> parse_chunk(const JsonView& object) {
  LitdataChunk chunk;
  STOKER_ASSIGN(const JsonView filename, object.at("filename"));
  STOKER_ASSIGN(chunk.filename, filename.text());
  if (!is_filename(chunk.filename)) {
    return filename.corrupt(
        fmt::format("{} is not a valid file name: 1 to 128 of [A-Za-z0-9._:-], no \"..\"",
                    quote_for_message(chunk.filename)));
  }
  STOKER_ASSIGN(const JsonView size, object.at("chunk_bytes"));
  STOKER_ASSIGN(chunk.size_bytes, size.u64());
  STOKER_ASSIGN(const JsonView samples, object.at("chunk_size"));
  STOKER_ASSIGN(chunk.sample_count, samples.u64(UINT32_MAX));
  STOKER_ASSIGN(const JsonView tokens, object.at_or_null("dim"));
  if (!tokens.is_null()) {
    STOKER_ASSIGN(chunk.token_count, tokens.u64(UINT32_MAX));
  }
  return chunk;
}

}  // namespace

Result<LitdataIndex> parse_litdata_index(std::string_view text) {
  const StrictJsonLimits limits = {.text_bytes_max = std::size_t{256} << 20};
  STOKER_ASSIGN(const Json document, parse_strict_json(text, "index.json", limits));
  const JsonView root(document, "index.json: ");
  LitdataIndex index;
  STOKER_ASSIGN(const JsonView config, root.at("config"));
  STOKER_TRY(parse_config(config, index));
  STOKER_ASSIGN(const JsonView chunks, root.at("chunks"));
  STOKER_ASSIGN(const std::size_t count, chunks.array_size());
  std::unordered_set<std::string> filenames;
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(LitdataChunk chunk, parse_chunk(chunks.element(i)));
    if (!filenames.insert(chunk.filename).second) {
      return chunks.element(i).corrupt(
          fmt::format("duplicate file {}", quote_for_message(chunk.filename)));
    }
    index.chunks.push_back(std::move(chunk));
  }
  return index;
}

}  // namespace stoker
