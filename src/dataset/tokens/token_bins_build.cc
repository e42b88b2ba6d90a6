#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "dataset/tokens/best_fit.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_bins_layout.h"

namespace stoker {
namespace {

static_assert(std::endian::native == std::endian::little, "files of packs are little-endian");

using namespace token_bins_layout;

constexpr std::uint64_t kStopStride = 1 << 16;  // samples between two checks of the stop token

/// Pieces in stored order, and the pack of each.
struct Packed {
  std::vector<std::uint64_t> pieces;
  std::vector<std::uint32_t> pack_of;
  std::uint64_t pack_count = 0;
};

Result<Packed> pack_all(const ShardDataset& dataset, std::uint64_t length,
                        const std::stop_token& stop) {
  const std::uint64_t token_bytes = dtype_size_bytes(*dataset.source().token_dtype());
  BestFit packs(static_cast<std::uint32_t>(length));
  Packed packed;
  std::uint32_t shard_hint = 0;
  if (dataset.sample_count() > kSampleMax)
    return Status(Code::unsupported, "packs: too many samples");
  for (std::uint64_t sample = 0; sample < dataset.sample_count(); ++sample) {
    if (sample % kStopStride == 0 && stop.stop_requested())
      return Status(Code::cancelled, "stopped while packing documents");
    STOKER_ASSIGN(const SampleLocation at, dataset.index().locate(sample, shard_hint));
    shard_hint = at.shard;
    const std::uint64_t tokens = at.record.size_bytes / token_bytes;
    if (tokens / length > kPartMax)
      return Status(Code::unsupported, dataset.describe(sample) + ": too long for packs of " +
                                           std::to_string(length) + " tokens; use longer rows");
    for (std::uint64_t part = 0; part * length < tokens; ++part) {
      if (packs.pack_count() == std::numeric_limits<std::uint32_t>::max() - 1)
        return Status(Code::unsupported, "packs: too many packs; use longer rows");
      const std::uint64_t size = std::min(length, tokens - part * length);
      packed.pack_of.push_back(packs.place(static_cast<std::uint32_t>(size)));
      packed.pieces.push_back(sample | part << kSampleBits);
    }
  }
  packed.pack_count = packs.pack_count();
  return packed;
}

/// The first piece of each pack, then the pieces, pack by pack and each in stored order.
std::vector<std::uint64_t> entries_of(const Packed& packed, std::uint64_t& pieces_max) {
  const std::uint64_t blocks = block_count(packed.pack_count + packed.pieces.size());
  std::vector<std::uint64_t> entries(blocks * kBlockBytes / kEntryBytes);
  for (const std::uint32_t pack : packed.pack_of) ++entries[pack];
  std::uint64_t first = 0;
  pieces_max = 0;
  for (std::uint64_t pack = 0; pack < packed.pack_count; ++pack) {
    const std::uint64_t count = std::exchange(entries[pack], first);
    pieces_max = std::max(pieces_max, count);
    first += count;
  }
  std::vector<std::uint64_t> next(entries.begin(),
                                  entries.begin() + static_cast<std::ptrdiff_t>(packed.pack_count));
  for (std::size_t i = 0; i < packed.pieces.size(); ++i)
    entries[packed.pack_count + next[packed.pack_of[i]]++] = packed.pieces[i];
  return entries;
}

void put(std::vector<std::byte>& out, std::span<const std::byte> bytes) {
  out.insert(out.end(), bytes.begin(), bytes.end());
}

void put(std::vector<std::byte>& out, const Digest128& digest) {
  const std::array<std::uint64_t, 2> words = {digest.low, digest.high};
  put(out, std::as_bytes(std::span(words)));
}

}  // namespace

Result<std::vector<std::byte>> TokenBins::build(const ShardDataset& dataset, std::uint64_t length,
                                                const std::stop_token& stop) {
  STOKER_ASSIGN(const Packed packed, pack_all(dataset, length, stop));
  if (packed.pieces.empty())
    return Status(Code::invalid_argument, "packs: the dataset has no tokens");
  std::uint64_t pieces_max = 0;
  const std::vector<std::uint64_t> entries = entries_of(packed, pieces_max);
  const auto body = std::as_bytes(std::span(entries));
  std::vector<std::byte> digests;
  for (std::size_t at = 0; at < body.size(); at += kBlockBytes)
    put(digests, xxh3_128(body.subspan(at, kBlockBytes)));
  const Digest128 digests_digest = xxh3_128(digests);
  const Digest128 fingerprint = dataset.index().fingerprint();
  const Header header{
      .magic = kMagic,
      .version_major = kVersionMajor,
      .version_minor = kVersionMinor,
      .token_bytes = static_cast<std::uint32_t>(dtype_size_bytes(*dataset.source().token_dtype())),
      .length = length,
      .pack_count = packed.pack_count,
      .piece_count = packed.pieces.size(),
      .pieces_max = pieces_max,
      .fingerprint_low = fingerprint.low,
      .fingerprint_high = fingerprint.high,
      .digests_digest_low = digests_digest.low,
      .digests_digest_high = digests_digest.high};
  std::vector<std::byte> file;
  file.reserve(kHeaderBytes + body.size() + digests.size());
  put(file, std::as_bytes(std::span(&header, 1)));
  file.resize(kHeaderBytes - kDigestBytes);
  put(file, xxh3_128(file));
  put(file, body);
  put(file, digests);
  return file;
}

}  // namespace stoker
