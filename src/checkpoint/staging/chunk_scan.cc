#include "checkpoint/staging/chunk_scan.h"

#include <algorithm>

#include "checkpoint/staging/nonfinite.h"

namespace stoker {
namespace {

/// Fits into the L2 cache, so that the later passes over a block find it there.
constexpr std::size_t kBlockBytes = std::size_t{128} << 10;

constexpr std::uint64_t kStrideBytes = 4096;
constexpr std::uint64_t kSampleBytes = 64;
constexpr std::uint64_t kSmallTensorBytes = std::uint64_t{64} << 10;  // not sampled, read whole

/// Returns the fingerprint of [begin, begin + piece.size()) of a tensor. Samples begin at multiples
/// of kStrideBytes in the tensor, regardless of its place in the file.
std::uint64_t fingerprint(std::span<const std::byte> piece, std::uint64_t begin,
                          std::uint64_t sample_bytes) noexcept {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
  std::uint64_t sum = 0;
  const std::uint64_t end = begin + piece.size();
  for (std::uint64_t at = begin / kStrideBytes * kStrideBytes; at < end; at += kStrideBytes) {
    const std::uint64_t first = std::max(at, begin);
    const std::uint64_t last = std::min(at + sample_bytes, end);
    if (first >= last) continue;
    sum += (xxh3_128(piece.subspan(first - begin, last - first)).low ^ (first + 1)) * kOdd;
  }
  return sum;
}

}  // namespace

Digest128 ChunkScanner::scan(const LayoutFile& file, std::size_t chunk,
                             std::span<const std::byte> bytes, std::span<const SaveTensor> tensors,
                             std::span<TensorScan> scans) {
  Xxh3Stream digest;
  const std::uint64_t chunk_begin = chunk * kCheckpointChunkBytes;
  for (std::size_t at = 0; at < bytes.size(); at += kBlockBytes) {
    const std::span<const std::byte> block =
        bytes.subspan(at, std::min(kBlockBytes, bytes.size() - at));
    digest.update(block);
    const std::uint64_t begin = chunk_begin + at;
    const std::uint64_t end = begin + block.size();
    for (const PlacedTensor& placed : file.overlapping(begin, end)) {
      // Both ends are element boundaries: the block size is a multiple of every element size, and
      // the layout keeps elements aligned.
      const std::uint64_t from = std::max(begin, placed.begin_bytes);
      const std::uint64_t to = std::min(end, placed.end_bytes);
      const std::span<const std::byte> piece = block.subspan(from - begin, to - from);
      const std::uint64_t size_bytes = placed.end_bytes - placed.begin_bytes;
      const bool is_whole = file.group.has_value() || size_bytes <= kSmallTensorBytes;
      TensorScan& scan = scans[placed.tensor];
      scan.nonfinite_count += count_nonfinite(tensors[placed.tensor].type, piece);
      scan.fingerprint +=
          fingerprint(piece, from - placed.begin_bytes, is_whole ? kStrideBytes : kSampleBytes);
      if (from == placed.begin_bytes && to == placed.end_bytes) {
        scan.digest = xxh3_128(piece);
        continue;
      }
      if (from == placed.begin_bytes) tensor_digest_.reset();
      tensor_digest_.update(piece);
      if (to == placed.end_bytes) scan.digest = tensor_digest_.digest();
    }
  }
  return digest.digest();
}

std::uint64_t fingerprint_of(const PlacedTensor& placed,
                             std::span<const std::byte> tensor) noexcept {
  const std::uint64_t sample_bytes =
      tensor.size() <= kSmallTensorBytes ? kStrideBytes : kSampleBytes;
  std::uint64_t sum = 0;
  // Samples end at block boundaries, as in scan().
  for (std::uint64_t begin = placed.begin_bytes; begin < placed.end_bytes;) {
    const std::uint64_t end = std::min((begin / kBlockBytes + 1) * kBlockBytes, placed.end_bytes);
    const std::uint64_t at = begin - placed.begin_bytes;
    sum += fingerprint(tensor.subspan(at, end - begin), at, sample_bytes);
    begin = end;
  }
  return sum;
}

}  // namespace stoker
