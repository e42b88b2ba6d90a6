#include "formats/litdata/litdata_inflate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "formats/arrays/offset_table.h"
#include "formats/decompress.h"

namespace stoker {
namespace {

constexpr char kFramedMagic[] = {'L', 'D', 'F', 'Z', '0', '1', '\0', '\0'};
constexpr std::uint64_t kPrefixBytes = 24;
constexpr std::uint64_t kFrameBytes = 24;
constexpr std::uint32_t kZstdMagic = 0xFD2FB528;
constexpr std::uint64_t kRatioFreeBytes = std::uint64_t{1} << 20;

Status corrupt_at(std::uint64_t offset_bytes, std::string_view message) {
  return {Code::corrupt, fmt::format("byte {}: {}", offset_bytes, message)};
}

/// Appends to a vector.
class AppendSink final : public ByteSink {
 public:
  explicit AppendSink(std::vector<std::byte>& out) : out_(out) {}
  Status write(std::span<const std::byte> bytes) override {
    out_.insert(out_.end(), bytes.begin(), bytes.end());
    return {};
  }

 private:
  std::vector<std::byte>& out_;
};

/// No limit on the ratio: the caller checks it for the whole chunk, where one sample may be a
/// thousand zeros.
Result<Decompressor> make_decompressor() {
  return Decompressor::make(Codec::zstd, {.output_bytes_max = 0, .ratio_max = UINT64_MAX});
}

/// Appends the contents of one frame, at offset `at` of the file, to `out`; at most `bytes_max`.
Status append_frame(Decompressor& decompressor, std::span<const std::byte> compressed,
                    std::uint64_t at, std::uint64_t bytes_max, std::vector<std::byte>& out) {
  decompressor.restart(bytes_max);
  AppendSink sink(out);
  Status status = decompressor.feed(compressed, sink);
  if (status.ok()) status = decompressor.finish();
  return status.with_context(fmt::format("byte {}", at));
}

/// Returns the largest allowed size of the plain form of `file`.
std::uint64_t plain_bytes_max(std::span<const std::byte> file,
                              const LitdataInflateOptions& options) {
  std::uint64_t by_ratio = 0;
  if (__builtin_mul_overflow(std::uint64_t{file.size()}, options.ratio_max, &by_ratio)) {
    by_ratio = UINT64_MAX;
  }
  return std::min(
      {std::max(by_ratio, kRatioFreeBytes), options.output_bytes_max, std::uint64_t{UINT32_MAX}});
}

void store_u32(std::vector<std::byte>& out, std::size_t at, std::uint64_t value) {
  const auto number = static_cast<std::uint32_t>(value);
  std::memcpy(out.data() + at, &number, sizeof number);
}

class CollectRecords final : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view /*key*/) override {
    records.push_back(record);
    return {};
  }
  std::vector<ByteRange> records;
};

Result<std::vector<std::byte>> inflate_samples(std::span<const std::byte> file,
                                               const LitdataInflateOptions& options) {
  STOKER_ASSIGN(OffsetTable table, OffsetTable::make({.size_bytes = file.size()}));
  CollectRecords items;
  while (!table.finished()) {
    STOKER_ASSIGN([[maybe_unused]] const std::size_t used,
                  table.feed(file.subspan(table.wants().offset_bytes), items));
  }
  const std::uint64_t bytes_max = plain_bytes_max(file, options);
  // Same size as the table in the file, which is inside the file.
  std::vector<std::byte> plain(file.begin(),
                               file.begin() + static_cast<std::ptrdiff_t>(table.table_end_bytes()));
  STOKER_ASSIGN(Decompressor decompressor, make_decompressor());
  std::size_t entry = 8;
  for (const ByteRange& item : items.records) {
    const auto bytes = file.subspan(item.offset_bytes, item.size_bytes);
    if (bytes.size() >= 4 && load_number<std::uint32_t>(bytes) == kZstdMagic) {
      const std::uint64_t left = bytes_max - std::min<std::uint64_t>(bytes_max, plain.size());
      STOKER_TRY(append_frame(decompressor, bytes, item.offset_bytes, left, plain));
    } else {
      plain.insert(plain.end(), bytes.begin(), bytes.end());
    }
    if (plain.size() > UINT32_MAX) {
      return corrupt_at(item.offset_bytes, "the plain chunk is larger than 4 GiB");
    }
    store_u32(plain, entry, plain.size());
    entry += 4;
  }
  const auto rest = file.subspan(table.end_bytes());
  plain.insert(plain.end(), rest.begin(), rest.end());
  return plain;
}

/// The tables of a file of frames, checked to be inside the file.
struct FramedChunk {
  std::span<const std::byte> file;
  std::uint64_t sample_count = 0;
  std::uint64_t frame_count = 0;
  std::uint64_t table_end_bytes = 0;

  static Result<FramedChunk> parse(std::span<const std::byte> file) {
    if (file.size() < kPrefixBytes) return corrupt_at(0, "ends inside the header of its frames");
    if (load_number<std::uint16_t>(file, 8) != 1 || load_number<std::uint16_t>(file, 10) != 0) {
      return Status(Code::unsupported,
                    "byte 8: only version 1, without flags, of LitData's frames is read");
    }
    FramedChunk chunk = {.file = file,
                         .sample_count = load_number<std::uint32_t>(file, 12),
                         .frame_count = load_number<std::uint32_t>(file, 20),
                         .table_end_bytes = 0};
    // 32-bit counts: no overflow.
    chunk.table_end_bytes =
        kPrefixBytes + 4 * (chunk.sample_count + 1) + kFrameBytes * chunk.frame_count;
    if (chunk.table_end_bytes > file.size()) {
      return corrupt_at(12, fmt::format("tables for {} samples in {} frames take {} bytes, the "
                                        "file has {}",
                                        chunk.sample_count, chunk.frame_count,
                                        chunk.table_end_bytes, file.size()));
    }
    return chunk;
  }

  /// Returns the offset of a sample, counted from the first, in the plain chunk.
  std::uint64_t sample_offset(std::uint64_t sample) const {
    return load_number<std::uint32_t>(file, kPrefixBytes + 4 * sample);
  }

  std::uint64_t frame_at(std::uint64_t frame) const {
    return kPrefixBytes + 4 * (sample_count + 1) + kFrameBytes * frame;
  }
};

/// Makes the table of the plain chunk from that of the framed one.
Result<std::vector<std::byte>> make_plain_table(const FramedChunk& chunk, std::uint64_t bytes_max) {
  const std::uint64_t table_bytes = 4 * (chunk.sample_count + 2);
  std::vector<std::byte> plain(table_bytes);
  store_u32(plain, 0, chunk.sample_count);
  std::uint64_t previous = 0;
  for (std::uint64_t i = 0; i <= chunk.sample_count; ++i) {
    const std::uint64_t offset = chunk.sample_offset(i);
    if (offset < previous || (i == 0 && offset != 0)) {
      return corrupt_at(kPrefixBytes + 4 * i,
                        fmt::format("sample {} at {} is before {}", i, offset, previous));
    }
    if (offset > bytes_max || table_bytes > bytes_max - offset) {
      return corrupt_at(kPrefixBytes + 4 * i,
                        fmt::format("the plain chunk is larger than {} bytes", bytes_max));
    }
    store_u32(plain, 4 * (i + 1), table_bytes + offset);
    previous = offset;
  }
  return plain;
}

Result<std::vector<std::byte>> inflate_frames(std::span<const std::byte> file,
                                              const LitdataInflateOptions& options) {
  STOKER_ASSIGN(const FramedChunk chunk, FramedChunk::parse(file));
  STOKER_ASSIGN(std::vector<std::byte> plain,
                make_plain_table(chunk, plain_bytes_max(file, options)));
  STOKER_ASSIGN(Decompressor decompressor, make_decompressor());
  std::uint64_t next_sample = 0;
  std::uint64_t next_byte = chunk.table_end_bytes;
  for (std::uint64_t i = 0; i < chunk.frame_count; ++i) {
    const std::uint64_t at = chunk.frame_at(i);
    const std::uint64_t first = load_number<std::uint32_t>(file, at);
    const std::uint64_t count = load_number<std::uint32_t>(file, at + 4);
    const auto offset = load_number<std::uint64_t>(file, at + 8);
    const std::uint64_t size = load_number<std::uint32_t>(file, at + 16);
    const std::uint64_t plain_size = load_number<std::uint32_t>(file, at + 20);
    if (first != next_sample || count == 0 || count > chunk.sample_count - first) {
      return corrupt_at(at, fmt::format("frame {} has {} samples from {} on, {} is next of {}", i,
                                        count, first, next_sample, chunk.sample_count));
    }
    if (offset != next_byte || size > file.size() - offset) {
      return corrupt_at(at + 8, fmt::format("frame {} has {} bytes at {}, {} is next of {}", i,
                                            size, offset, next_byte, file.size()));
    }
    if (plain_size != chunk.sample_offset(first + count) - chunk.sample_offset(first)) {
      return corrupt_at(
          at + 20, fmt::format("frame {} of {} bytes has samples of other sizes", i, plain_size));
    }
    const std::size_t before = plain.size();
    STOKER_TRY(append_frame(decompressor, file.subspan(offset, size), offset, plain_size, plain));
    if (plain.size() - before != plain_size) {
      return corrupt_at(offset, fmt::format("frame {} has {} bytes, its header says {}", i,
                                            plain.size() - before, plain_size));
    }
    next_sample += count;
    next_byte += size;
  }
  if (next_sample != chunk.sample_count || next_byte != file.size()) {
    return corrupt_at(next_byte,
                      fmt::format("the frames end with sample {} of {} and byte {} of "
                                  "{}",
                                  next_sample, chunk.sample_count, next_byte, file.size()));
  }
  return plain;
}

Result<std::vector<std::byte>> inflate_whole(const LitdataChunk& chunk,
                                             std::span<const std::byte> file,
                                             const LitdataInflateOptions& options) {
  // Before 0.2.40 the index counted only the items.
  const std::uint64_t with_table_bytes =
      std::max(chunk.size_bytes, chunk.size_bytes + 4 * (chunk.sample_count + 2));
  const DecompressLimits limits = {
      .output_bytes_max = std::min(with_table_bytes, options.output_bytes_max),
      .ratio_max = options.ratio_max};
  STOKER_ASSIGN(std::vector<std::byte> plain, decompress(Codec::zstd, file, limits));
  if (plain.size() != chunk.size_bytes && plain.size() != with_table_bytes) {
    return corrupt_at(file.size(), fmt::format("decompresses to {} bytes, the index says {}",
                                               plain.size(), chunk.size_bytes));
  }
  return plain;
}

Result<std::vector<std::byte>> inflate(LitdataIndex::Compression compression,
                                       const LitdataChunk& chunk, std::span<const std::byte> file,
                                       const LitdataInflateOptions& options) {
  using Compression = LitdataIndex::Compression;
  if (compression == Compression::chunk) return inflate_whole(chunk, file, options);
  if (compression == Compression::sample) return inflate_samples(file, options);
  const bool framed = file.size() >= sizeof kFramedMagic &&
                      std::memcmp(file.data(), kFramedMagic, sizeof kFramedMagic) == 0;
  if (compression == Compression::batch && framed) return inflate_frames(file, options);
  return std::vector<std::byte>(file.begin(), file.end());
}

}  // namespace

Result<std::vector<std::byte>> inflate_litdata_chunk(const LitdataIndex& index,
                                                     const LitdataChunk& chunk,
                                                     std::span<const std::byte> file,
                                                     const LitdataInflateOptions& options) {
  Result<std::vector<std::byte>> plain = inflate(index.compression, chunk, file, options);
  if (!plain.ok()) return plain.status().with_context(chunk.filename);
  return plain;
}

}  // namespace stoker
