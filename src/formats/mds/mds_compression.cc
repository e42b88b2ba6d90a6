#include "formats/mds/mds_compression.h"

#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>

#include "formats/json/strict_json.h"
#include "formats/mds/mds_hash.h"

namespace stoker {
namespace {

Result<std::vector<std::byte>> compress_zstd(int level, std::span<const std::byte> raw) {
  std::vector<std::byte> out(ZSTD_compressBound(raw.size()));
  const std::size_t size = ZSTD_compress(out.data(), out.size(), raw.data(), raw.size(), level);
  if (ZSTD_isError(size) != 0) {
    return Status(Code::unsupported, fmt::format("zstd: {}", ZSTD_getErrorName(size)));
  }
  out.resize(size);
  return out;
}

Result<std::vector<std::byte>> compress_gzip(int level, std::span<const std::byte> raw) {
  z_stream stream = {};
  constexpr int kGzip = 16 + MAX_WBITS;
  constexpr int kMemory = 8;  // zlib's default
  if (deflateInit2(&stream, level, Z_DEFLATED, kGzip, kMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    return Status(Code::unsupported, "gzip: zlib cannot start");
  }
  // Shards are below 4 GiB, which fits one call. The bound may be larger.
  std::vector<std::byte> out(deflateBound(&stream, raw.size()));
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(raw.data()));
  stream.avail_in = static_cast<uInt>(raw.size());
  std::size_t size = 0;
  int result = Z_OK;
  while (result == Z_OK) {
    const std::size_t room = std::min<std::size_t>(out.size() - size, UINT32_MAX);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + size);
    stream.avail_out = static_cast<uInt>(room);
    result = deflate(&stream, Z_FINISH);
    size += room - stream.avail_out;
  }
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return Status(Code::unsupported, "gzip: zlib gave up");
  out.resize(size);
  return out;
}

struct Row {
  std::string_view name;
  Codec codec;
  int level;
  int level_min;
  int level_max;  ///< Snappy has no levels; 0 stands for its only one.
};
constexpr Row kCompressions[] = {
    {"zstd", Codec::zstd, 3, 1, 22},    {"gz", Codec::gzip, 9, 0, 9},
    {"br", Codec::brotli, 11, 0, 11},   {"bz2", Codec::bzip2, 9, 1, 9},
    {"snappy", Codec::snappy, 0, 0, 0},
};

}  // namespace

Result<MdsCompression> parse_mds_compression(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto* const row = std::ranges::find(kCompressions, text.substr(0, colon), &Row::name);
  if (row == std::end(kCompressions)) {
    return Status(Code::unsupported,
                  fmt::format("compression {} is none of zstd, gz, br, bz2 and snappy",
                              quote_for_message(text)));
  }
  MdsCompression compression = {.codec = row->codec, .level = row->level};
  if (colon == std::string_view::npos) return compression;
  const std::string_view digits = text.substr(colon + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), compression.level);
  if (error != std::errc() || end != digits.data() + digits.size() ||
      compression.level < row->level_min || compression.level > row->level_max) {
    return Status(Code::corrupt,
                  fmt::format("compression {}: levels are {} to {}", quote_for_message(text),
                              row->level_min, row->level_max));
  }
  return compression;
}

Result<MdsCompression> parse_mds_write_compression(std::string_view text) {
  STOKER_ASSIGN(const MdsCompression compression, parse_mds_compression(text));
  if (compression.codec == Codec::zstd || compression.codec == Codec::gzip) return compression;
  return Status(Code::unsupported, fmt::format("compression {}: only zstd and gz are written",
                                               quote_for_message(text)));
}

Result<std::vector<std::byte>> compress_mds(const MdsCompression& compression,
                                            std::span<const std::byte> raw) {
  if (raw.size() > UINT32_MAX) {
    return Status(Code::invalid_argument, "MDS shards are smaller than 4 GiB");
  }
  return compression.codec == Codec::zstd ? compress_zstd(compression.level, raw)
                                          : compress_gzip(compression.level, raw);
}

Status check_mds_file(const MdsFile& file, std::span<const std::byte> bytes) {
  if (bytes.size() != file.size_bytes) {
    return {Code::corrupt, fmt::format("{}: {} bytes, the index says {}", file.basename,
                                       bytes.size(), file.size_bytes)};
  }
  for (const auto& [algorithm, expected] : file.hashes) {
    const Result<std::string> actual = mds_digest(algorithm, bytes);
    if (!actual.ok()) return actual.status().with_context(file.basename);
    if (*actual != expected) {
      return {Code::corrupt,
              fmt::format("{}: bytes 0 to {}: {} is {}, the index says {}", file.basename,
                          bytes.size(), algorithm, *actual, quote_for_message(expected))};
    }
  }
  return {};
}

Result<std::vector<std::byte>> inflate_mds_shard(const MdsShard& shard,
                                                 std::span<const std::byte> compressed) {
  if (!shard.zip || !shard.config.compression) {
    return Status(Code::invalid_argument,
                  fmt::format("{}: the shard is not compressed", shard.raw.basename));
  }
  const std::string& name = shard.zip->basename;
  const Result<MdsCompression> compression = parse_mds_compression(*shard.config.compression);
  if (!compression.ok()) return compression.status().with_context(name);
  STOKER_TRY(check_mds_file(*shard.zip, compressed));
  Result<std::vector<std::byte>> raw =
      decompress(compression->codec, compressed, {.output_bytes_max = shard.raw.size_bytes});
  if (!raw.ok()) return raw.status().with_context(name);
  const Status status = check_mds_file(shard.raw, *raw);
  if (!status.ok()) return status.with_context(name);
  return raw;
}

}  // namespace stoker
