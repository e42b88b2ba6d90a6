// Pack files with any entries and correct checksums: every pack is refused, or its pieces are
// inside the pack and inside the token file.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_bins_layout.h"
#include "fuzz/scratch_directory.h"

namespace {

using namespace stoker;  // NOLINT(google-build-using-namespace)
using namespace stoker::token_bins_layout;

constexpr std::uint64_t kLength = 16;

/// 40 rows of 30 tokens of one byte.
std::shared_ptr<const ShardDataset> make_dataset() {
  static const ScratchDirectory scratch;
  scratch.write("t.bin", std::string(1200, 'x'));
  const std::string& name = scratch.path();
  auto dataset =
      ShardDataset::open({&name, 1}, {.source = {.format = "raw", .dtype = Dtype::uint8}});
  if (!dataset.ok()) abort();
  return *dataset;
}

/// Writes the entries from `data` into `file`, a copy of `sound` that is reused for every input,
/// and corrects its checksums. Only the bytes that the last input changed are restored, not all 68
/// KiB.
void frame(std::span<const std::byte> sound, std::span<const std::byte> data,
           std::vector<std::byte>& file) {
  static std::size_t changed_bytes = 0;
  std::memcpy(file.data() + kHeaderBytes, sound.data() + kHeaderBytes, changed_bytes);
  Header header;
  std::memcpy(&header, sound.data(), sizeof header);
  const std::size_t body = std::min(data.size(), kBlockBytes);
  changed_bytes = body < 2 ? 0 : body - 2;
  if (body >= 2) {  // the first two bytes are the counts
    header.pack_count = std::to_integer<std::uint8_t>(data[0]);
    header.piece_count = std::to_integer<std::uint8_t>(data[1]);
    header.pieces_max = header.piece_count;
    std::memcpy(file.data() + kHeaderBytes, data.data() + 2, changed_bytes);
  }
  const auto seal = [&file](std::size_t at, Digest128 digest) {
    std::memcpy(file.data() + at, &digest.low, 8);
    std::memcpy(file.data() + at + 8, &digest.high, 8);
  };
  const std::span<const std::byte> bytes(file);
  seal(kHeaderBytes + kBlockBytes, xxh3_128(bytes.subspan(kHeaderBytes, kBlockBytes)));
  const Digest128 digests = xxh3_128(bytes.last(kDigestBytes));
  header.digests_digest_low = digests.low;
  header.digests_digest_high = digests.high;
  std::memcpy(file.data(), &header, sizeof header);
  seal(kHeaderBytes - kDigestBytes, xxh3_128(bytes.first(kHeaderBytes - kDigestBytes)));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::shared_ptr<const ShardDataset> dataset = make_dataset();
  static const std::vector<std::byte> sound = *TokenBins::build(*dataset, kLength);
  const std::span<const std::byte> input(reinterpret_cast<const std::byte*>(data), size);
  static_cast<void>(TokenBins::parse(dataset, kLength, input));
  static std::vector<std::byte> file = sound;
  frame(sound, input, file);
  const Result<TokenBins> packs = TokenBins::parse(dataset, kLength, file);
  if (!packs.ok()) return 0;
  std::vector<BinPiece> pieces;
  for (std::uint64_t unit = 0; unit < packs->count(); ++unit) {
    if (!packs->locate(unit, pieces).ok()) continue;
    for (const BinPiece& piece : pieces)
      if (piece.range.end_bytes() > 1200 || piece.at_bytes + piece.range.size_bytes > kLength)
        __builtin_trap();
  }
  return 0;
}
