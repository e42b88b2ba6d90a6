#include "dataset/shards/shard_source.h"
#include "formats/mds/mds_compression.h"
#include "formats/mds/mds_format.h"
#include "formats/mds/mds_index.h"
#include "formats/mds/mds_shard.h"

namespace stoker {
namespace {

/// MDS: index.json lists the shards, their columns and their digests.
class MdsSource final : public ShardSource {
 public:
  MdsSource(ShardFiles files, std::vector<MdsShard> shards, std::vector<MdsColumn> columns)
      : ShardSource(mds_format(), std::move(files)),
        shards_(std::move(shards)),
        reader_(std::move(columns)) {}

  const ShardReader& reader() const noexcept override { return reader_; }
  Result<std::unique_ptr<ShardScanner>> scan(std::size_t shard,
                                             std::uint64_t size_bytes) const override {
    return reader_.scan_shard(shards_[shard], size_bytes);
  }
  bool is_compressed(std::size_t shard) const override { return shards_[shard].zip.has_value(); }
  Result<std::vector<std::byte>> inflate(std::size_t shard,
                                         std::span<const std::byte> file) const override {
    return inflate_mds_shard(shards_[shard], file);
  }
  bool has_digests(std::size_t shard) const override { return !shards_[shard].raw.hashes.empty(); }
  Status check_digests(std::size_t shard, std::span<const std::byte> file) const override {
    return check_mds_file(shards_[shard].raw, file);
  }

 private:
  std::vector<MdsShard> shards_;
  MdsReader reader_;
};

/// Returns the shards that a directory's index.json names, each as it is stored.
Result<std::vector<MdsShard>> shards_of(ObjectStore& store,
                                        const internal::IndexedDirectory& directory) {
  Result<std::vector<MdsShard>> shards = parse_mds_index(directory.index);
  // The parser's messages begin with the file's name.
  if (!shards.ok())
    return Status(shards.status().code(),
                  internal::key_in(directory.path, shards.status().message()));
  if (shards->empty())
    return Status(Code::not_found, directory.path + ": index.json names no shards");
  for (MdsShard& shard : *shards) {
    // MosaicML Streaming can keep the decompressed shard next to the compressed one; it is then
    // read instead.
    if (shard.zip && store.look(internal::key_in(directory.path, shard.raw.basename)).ok())
      shard.zip.reset();
  }
  return shards;
}

}  // namespace

namespace internal {

Result<std::unique_ptr<ShardSource>> open_mds(std::span<const IndexedDirectory> directories,
                                              const ShardSourceOptions& options) {
  std::vector<MdsShard> shards;
  std::vector<std::string> paths;
  for (const IndexedDirectory& directory : directories) {
    STOKER_ASSIGN(std::vector<MdsShard> found, shards_of(*options.store, directory));
    for (MdsShard& shard : found) {
      const std::string& name = shard.zip ? shard.zip->basename : shard.raw.basename;
      paths.push_back(internal::key_in(directory.path, name));
      shards.push_back(std::move(shard));
    }
  }
  const std::vector<MdsColumn> columns = shards.front().config.columns;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (!same_mds_columns(columns, shards[i].config.columns))
      return Status(Code::unsupported,
                    paths[i] + ": its columns differ from those of " + paths.front() +
                        ", the first shard; open datasets with different columns separately");
  }
  // A single directory is used as it is, even if all its shards are in a subdirectory.
  ShardFiles files{
      .store = options.store,
      .directory = directories.size() == 1 ? directories.front().path : common_directory(paths),
      .shards = {}};
  STOKER_ASSIGN(files.shards,
                stat_shards(*files.store, paths, files.directory, !options.check_files));
  for (std::size_t i = 0; options.check_files && i < files.shards.size(); ++i) {
    const ShardFile& file = files.shards[i];
    const MdsFile& said = shards[i].zip ? *shards[i].zip : shards[i].raw;
    if (file.size_bytes != said.size_bytes)
      return Status(Code::corrupt, file.path + ": has " + std::to_string(file.size_bytes) +
                                       " bytes, index.json says " +
                                       std::to_string(said.size_bytes) + "; copy it again");
  }
  return std::unique_ptr<ShardSource>(
      std::make_unique<MdsSource>(std::move(files), std::move(shards), columns));
}

}  // namespace internal
}  // namespace stoker
