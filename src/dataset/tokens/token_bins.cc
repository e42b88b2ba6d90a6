#include "dataset/tokens/token_bins.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "dataset/index/derived_file.h"
#include "dataset/tokens/token_bins_layout.h"
#include "io/mapped_file.h"

namespace stoker {
namespace {

using namespace token_bins_layout;

Status damaged(const std::string& what) {
  return Status(Code::corrupt, "packs: " + what + "; delete the file, and Stoker builds it again");
}

Result<Header> check_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes) return damaged("shorter than the header");
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kMagic) return damaged("not a file of packs");
  if (header.version_major != kVersionMajor)
    return Status(Code::unsupported, "packs: written by another version of Stoker (format " +
                                         std::to_string(header.version_major) +
                                         "); delete the file, and Stoker builds it again");
  const std::size_t digested = kHeaderBytes - kDigestBytes;
  if (xxh3_128(bytes.first(digested)) != load_digest(bytes.subspan(digested)))
    return damaged("the header is damaged");
  return header;
}

/// Bounds every count by the file's size before it is used.
Status check_sections(const Header& header, std::uint64_t file_bytes) {
  const std::uint64_t entries_max = (file_bytes - kHeaderBytes) / kEntryBytes;
  if (header.pack_count > entries_max || header.piece_count > entries_max - header.pack_count ||
      header.pack_count > header.piece_count || header.pieces_max > header.piece_count)
    return damaged("its counts exceed its size");
  if (block_count(header.pack_count + header.piece_count) * (kBlockBytes + kDigestBytes) !=
      file_bytes - kHeaderBytes)
    return damaged("its size does not match its header");
  return {};
}

Status check_arguments(const ShardDataset& dataset, std::uint64_t length) {
  if (!dataset.source().token_dtype())
    return Status(
        Code::invalid_argument,
        "packs: the shards are " + std::string(dataset.source().format()) + ", not tokens");
  if (length == 0 || length > TokenBins::kLengthMax)
    return Status(Code::invalid_argument, "packs: a row has from 1 to " +
                                              std::to_string(TokenBins::kLengthMax) +
                                              " tokens, not " + std::to_string(length));
  return {};
}

}  // namespace

Result<TokenBins> TokenBins::parse(std::shared_ptr<const ShardDataset> dataset,
                                   std::uint64_t length, std::span<const std::byte> bytes) {
  STOKER_TRY(check_arguments(*dataset, length));
  STOKER_ASSIGN(const Header header, check_header(bytes));
  TokenBins packs;
  packs.dtype_ = *dataset->source().token_dtype();
  if (dataset->index().fingerprint() !=
          Digest128{.low = header.fingerprint_low, .high = header.fingerprint_high} ||
      header.length != length || header.token_bytes != dtype_size_bytes(packs.dtype_))
    return Status(Code::not_found, "packs: the file is for other samples or another length");
  STOKER_TRY(check_sections(header, bytes.size()));
  const std::uint64_t blocks = block_count(header.pack_count + header.piece_count);
  const auto digests = bytes.last(blocks * kDigestBytes);
  if (xxh3_128(digests) !=
      Digest128{.low = header.digests_digest_low, .high = header.digests_digest_high})
    return damaged("the table of checksums is damaged");
  packs.entries_ = CheckedBlocks(bytes.subspan(kHeaderBytes, blocks * kBlockBytes), digests);
  packs.dataset_ = std::move(dataset);
  packs.length_ = length;
  packs.pack_count_ = header.pack_count;
  packs.piece_count_ = header.piece_count;
  packs.pieces_max_ = header.pieces_max;
  return packs;
}

Result<TokenBins> TokenBins::open(std::shared_ptr<const ShardDataset> dataset,
                                  const Options& options) {
  STOKER_TRY(check_arguments(*dataset, options.length));
  std::optional<TokenBins> taken;
  const auto keep = [&](std::span<const std::byte> bytes, std::shared_ptr<const void> owner) {
    Result<TokenBins> packs = parse(dataset, options.length, bytes);
    if (!packs.ok()) return packs.status();
    packs->mapping_ = std::move(owner);
    taken.emplace(*std::move(packs));
    return Status();
  };
  const auto take = [&](const PathAt& path) -> Status {
    STOKER_ASSIGN(MappedFile file, MappedFile::open(path, MapAdvice::random));
    const auto mapping = std::make_shared<const MappedFile>(std::move(file));
    return keep(mapping->bytes(), mapping).with_context(path.text());
  };
  // The index's name identifies the shards; the fingerprint identifies their contents.
  const std::string shards = index_name(dataset->source()).substr(std::strlen("index-"));
  STOKER_ASSIGN(
      DerivedFile file,
      open_derived_file({.places = derived_places(dataset->source(), options.cache_directory),
                         .name = "packs-" + std::to_string(options.length) + "-" + shards,
                         .what = "the packs",
                         .rebuild = options.rebuild,
                         .in_memory = options.in_memory,
                         .stop = options.stop,
                         .ops = options.ops},
                        take, [&] { return build(*dataset, options.length, options.stop); }));
  if (file.path.empty()) {
    const auto kept = std::make_shared<const std::vector<std::byte>>(std::move(file.bytes));
    STOKER_TRY(keep(*kept, kept));
  }
  return *std::move(taken);
}

Result<std::uint64_t> TokenBins::entry(std::uint64_t number) const {
  if (!entries_.is_good(number * kEntryBytes / kBlockBytes))
    return damaged("the entries around number " + std::to_string(number) + " are damaged");
  std::uint64_t value = 0;
  std::memcpy(&value, entries_.bytes().data() + number * kEntryBytes, sizeof value);
  return value;
}

Status TokenBins::locate(std::uint64_t unit, std::vector<BinPiece>& out) const {
  out.clear();
  if (unit >= pack_count_)
    return Status(Code::invalid_argument, "packs: pack " + std::to_string(unit) + " of " +
                                              std::to_string(pack_count_) + " does not exist");
  STOKER_ASSIGN(const std::uint64_t begin, entry(unit));
  std::uint64_t end = piece_count_;
  if (unit + 1 < pack_count_) {
    STOKER_ASSIGN(end, entry(unit + 1));
  }
  if (begin > end || end > piece_count_ || end - begin > pieces_max_)
    return damaged("pack " + std::to_string(unit) + " has an invalid range of pieces");
  const std::uint64_t token_bytes = dtype_size_bytes(dtype_);
  const bool has_checksums = dataset_->index().has_checksums();
  std::uint64_t at = 0;
  std::uint32_t shard_hint = 0;
  for (std::uint64_t i = begin; i < end; ++i) {
    STOKER_ASSIGN(const std::uint64_t piece, entry(pack_count_ + i));
    const std::uint64_t part = piece >> kSampleBits;
    const Result<SampleLocation> found = dataset_->index().locate(piece & kSampleMax, shard_hint);
    if (!found.ok()) return found.status().with_context("packs");
    shard_hint = found->shard;
    const std::uint64_t skip = part * row_bytes();  // below 2^24 * 2^26 * 2^3
    const std::uint64_t document = found->record.size_bytes / token_bytes * token_bytes;
    if (skip >= document) return damaged("a piece is outside its document");
    const std::uint64_t size = std::min(row_bytes(), document - skip);
    if (size > row_bytes() - at)
      return damaged("pack " + std::to_string(unit) + " is longer than a row");
    out.push_back({.shard = found->shard,
                   .range = {found->record.offset_bytes + skip, size},
                   .at_bytes = at,
                   .begins_document = part == 0});
    if (has_checksums && size == found->record.size_bytes) out.back().crc32c = found->crc32c;
    at += size;
  }
  return {};
}

Status TokenBins::verify() const {
  for (std::uint64_t block = 0; block < entries_.count(); ++block)
    if (!entries_.is_good(block))
      return damaged("block " + std::to_string(block) + " of its entries is damaged");
  return {};
}

}  // namespace stoker
