#include <array>
#include <cstring>
#include <filesystem>
#include <optional>

#include "dataset/shards/shard_source.h"
#include "formats/arrays/array_formats.h"
#include "formats/arrays/token_reader.h"
#include "formats/arrays/tokens.h"

namespace stoker {
namespace {

constexpr std::size_t kIdxHeadBytes = 34;
constexpr std::size_t kIdxBytesMax = std::size_t{4} << 30;  // 200 million sequences

/// Arrays that are single files.
class TokenSource final : public ShardSource {
 public:
  TokenSource(const ShardFormat& format, ShardFiles files, std::vector<TokenLayout> layouts)
      : ShardSource(format, std::move(files)),
        layouts_(std::move(layouts)),
        reader_(layouts_.front().dtype) {}

  const ShardReader& reader() const noexcept override { return reader_; }
  std::optional<Dtype> token_dtype() const noexcept override { return reader_.dtype(); }
  Result<std::unique_ptr<ShardScanner>> scan(std::size_t shard,
                                             std::uint64_t /*size_bytes*/) const override {
    return make_token_scanner(layouts_[shard]);
  }

 private:
  std::vector<TokenLayout> layouts_;
  TokenReader reader_;
};

/// Pairs of .bin and .idx. An .idx grows with its dataset, so it is read when its shard is scanned
/// and not when the dataset is opened; the index then has its contents.
class MegatronSource final : public ShardSource {
 public:
  MegatronSource(ShardFiles files, Dtype dtype)
      : ShardSource(megatron_format(), std::move(files)), reader_(dtype) {}

  const ShardReader& reader() const noexcept override { return reader_; }
  std::optional<Dtype> token_dtype() const noexcept override { return reader_.dtype(); }
  Result<std::unique_ptr<ShardScanner>> scan(std::size_t shard,
                                             std::uint64_t size_bytes) const override {
    const std::string& path = sidecars()[shard].path;
    STOKER_ASSIGN(std::string idx, internal::read_whole(store(), path, kIdxBytesMax));
    // A string of at least kIdxHeadBytes is on the heap, so that moving it does not move its bytes.
    if (idx.size() < kIdxHeadBytes)
      return Status(Code::corrupt, path + ": shorter than its header");
    Result<TokenLayout> layout = layout_of_megatron(std::as_bytes(std::span(idx)), size_bytes);
    if (!layout.ok()) return layout.status().with_context(path);
    if (size_bytes == 0 && layout->sequence_count > 0)
      return Status(Code::invalid_argument,
                    path + ": all its sequences are empty; leave this pair out");
    return make_token_scanner(*layout, std::move(idx));
  }

 private:
  TokenReader reader_;
};

/// Reads the dtype from an .idx's header. The rest is checked when the shard is scanned.
Result<Dtype> megatron_dtype(ObjectStore& store, const std::string& idx_path) {
  STOKER_ASSIGN(const std::vector<std::byte> head,
                internal::read_head(store, idx_path, kIdxHeadBytes));
  constexpr std::array kDtypes = {Dtype::uint8, Dtype::int8,    Dtype::int16,   Dtype::int32,
                                  Dtype::int64, Dtype::float64, Dtype::float32, Dtype::uint16};
  if (head.size() == kIdxHeadBytes && std::memcmp(head.data(), "MMIDIDX\0\0", 9) == 0) {
    for (const Dtype dtype : kDtypes) {
      const Result<std::uint8_t> code = megatron_dtype_code(dtype);
      if (code.ok() && std::to_integer<std::uint8_t>(head[17]) == *code) return dtype;
    }
  }
  return Status(Code::corrupt, idx_path + ": not the header of a Megatron index (byte 0)");
}

std::string with_extension(const std::string& path, const char* extension) {
  return std::filesystem::path(path).replace_extension(extension).string();
}

Status other_dtype(const std::string& path, Dtype dtype, Dtype first) {
  return Status(Code::invalid_argument, path + ": contains " + std::string(dtype_name(dtype)) +
                                            ", the first file " + std::string(dtype_name(first)) +
                                            "; name files of one dtype");
}

Result<std::unique_ptr<ShardSource>> open_megatron(std::span<const std::string> paths,
                                                   const ShardSourceOptions& options) {
  ObjectStore& store = *options.store;
  std::vector<std::string> bin_paths;
  std::vector<std::string> idx_paths;
  for (const std::string& path : paths) {  // either of the pair may have been named
    bin_paths.push_back(with_extension(path, ".bin"));
    idx_paths.push_back(with_extension(path, ".idx"));
  }
  STOKER_ASSIGN(const Dtype first, megatron_dtype(store, idx_paths.front()));
  for (const std::string& path : idx_paths) {
    STOKER_ASSIGN(const Dtype found, megatron_dtype(store, path));
    if (found != first) return other_dtype(path, found, first);
    if (options.dtype && found != *options.dtype)
      return Status(Code::invalid_argument, path + ": contains " + std::string(dtype_name(found)) +
                                                ", not " + std::string(dtype_name(*options.dtype)));
  }
  ShardFiles files{
      .store = options.store, .directory = internal::common_directory(bin_paths), .shards = {}};
  STOKER_ASSIGN(files.shards, internal::stat_shards(store, bin_paths, files.directory));
  STOKER_ASSIGN(files.sidecars, internal::stat_shards(store, idx_paths, files.directory));
  return std::unique_ptr<ShardSource>(std::make_unique<MegatronSource>(std::move(files), first));
}

}  // namespace

namespace internal {

Result<std::unique_ptr<ShardSource>> open_tokens(const ShardFormat& format,
                                                 std::span<const std::string> paths,
                                                 const ShardSourceOptions& options) {
  if (&format == &megatron_format()) return open_megatron(paths, options);
  STOKER_ASSIGN(const TokenFormat kind, parse_token_format(format.name));
  ShardFiles files{.store = options.store, .directory = common_directory(paths), .shards = {}};
  STOKER_ASSIGN(files.shards, stat_shards(*files.store, paths, files.directory));
  std::vector<TokenLayout> layouts;
  for (const ShardFile& file : files.shards) {
    STOKER_ASSIGN(const std::vector<std::byte> head,
                  read_head(*files.store, file.path, token_head_bytes_max(kind)));
    Result<TokenLayout> layout = parse_tokens(kind, head, file.size_bytes, options.dtype);
    if (!layout.ok()) return layout.status().with_context(file.path);
    layouts.push_back(*std::move(layout));
    if (layouts.back().dtype != layouts.front().dtype)
      return other_dtype(file.path, layouts.back().dtype, layouts.front().dtype);
  }
  return std::unique_ptr<ShardSource>(
      std::make_unique<TokenSource>(format, std::move(files), std::move(layouts)));
}

}  // namespace internal
}  // namespace stoker
