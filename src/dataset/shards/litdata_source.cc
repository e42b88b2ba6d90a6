#include "dataset/shards/shard_source.h"
#include "formats/litdata/litdata_chunk.h"
#include "formats/litdata/litdata_format.h"
#include "formats/litdata/litdata_index.h"
#include "formats/litdata/litdata_inflate.h"

namespace stoker {
namespace {

/// LitData: index.json lists the chunks and the structure of their samples.
class LitdataSource final : public ShardSource {
 public:
  LitdataSource(ShardFiles files, LitdataIndex index, std::unique_ptr<LitdataReader> reader)
      : ShardSource(litdata_format(), std::move(files)),
        index_(std::move(index)),
        reader_(std::move(reader)) {}

  const ShardReader& reader() const noexcept override { return *reader_; }
  std::optional<Dtype> token_dtype() const noexcept override {
    return index_.is_tokens ? index_.leaves.front().dtype : std::nullopt;
  }
  Result<std::unique_ptr<ShardScanner>> scan(std::size_t shard,
                                             std::uint64_t size_bytes) const override {
    return reader_->scan_chunk(index_.chunks[shard], size_bytes);
  }
  bool is_compressed(std::size_t /*shard*/) const override {
    return index_.compression != LitdataIndex::Compression::none;
  }
  Result<std::vector<std::byte>> inflate(std::size_t shard,
                                         std::span<const std::byte> file) const override {
    return inflate_litdata_chunk(index_, index_.chunks[shard], file);
  }

 private:
  LitdataIndex index_;
  std::unique_ptr<LitdataReader> reader_;
};

}  // namespace

namespace internal {

Result<std::unique_ptr<ShardSource>> open_litdata(const std::string& directory,
                                                  std::string_view index,
                                                  const ShardSourceOptions& options) {
  Result<LitdataIndex> parsed = parse_litdata_index(index);
  if (!parsed.ok()) return parsed.status().with_context(key_in(directory, "index.json"));
  if (parsed->chunks.empty())
    return Status(Code::not_found, directory + ": index.json names no chunks");
  std::vector<std::string> paths;
  for (const LitdataChunk& chunk : parsed->chunks)
    paths.push_back(key_in(directory, chunk.filename));
  ShardFiles files{.store = options.store, .directory = directory, .shards = {}};
  STOKER_ASSIGN(files.shards, stat_shards(*files.store, paths, directory, !options.check_files));
  STOKER_ASSIGN(std::unique_ptr<LitdataReader> reader, LitdataReader::make(*parsed));
  return std::unique_ptr<ShardSource>(
      std::make_unique<LitdataSource>(std::move(files), *std::move(parsed), std::move(reader)));
}

}  // namespace internal
}  // namespace stoker
