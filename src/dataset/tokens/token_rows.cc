#include "dataset/tokens/token_rows.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

namespace stoker::internal {
namespace {

/// In place: going forward, the wide element i ends before the narrow element i + 1 begins. Uses
/// small buffers, so that the compiler can vectorize the loop.
template <typename T>
void widen(std::span<std::byte> room, std::size_t count) {
  constexpr std::size_t kStep = 512;
  std::array<T, kStep> narrow{};
  std::array<std::int64_t, kStep> wide{};
  const std::byte* from = room.data() + room.size() - count * sizeof(T);
  std::byte* to = room.data();
  while (count > 0) {
    const std::size_t step = std::min(count, kStep);
    std::memcpy(narrow.data(), from, step * sizeof(T));
    for (std::size_t i = 0; i < kStep; ++i)
      wide[i] = static_cast<std::int64_t>(narrow[i]);  // NOLINT(bugprone-signed-char-misuse)
    std::memcpy(to, wide.data(), step * sizeof(std::int64_t));
    from += step * sizeof(T);
    to += step * sizeof(std::int64_t);
    count -= step;
  }
}

}  // namespace

void widen_tokens(Dtype dtype, std::span<std::byte> room, std::size_t count) {
  switch (dtype) {
    case Dtype::uint8:
    case Dtype::boolean: return widen<std::uint8_t>(room, count);
    case Dtype::int8: return widen<std::int8_t>(room, count);
    case Dtype::uint16: return widen<std::uint16_t>(room, count);
    case Dtype::int16: return widen<std::int16_t>(room, count);
    case Dtype::uint32: return widen<std::uint32_t>(room, count);
    case Dtype::int32: return widen<std::int32_t>(room, count);
    default: return;  // 64 bits already; LoaderPlan refuses real numbers
  }
}

std::uint64_t finish_pack_row(std::span<const BinPiece> pieces, std::size_t stored_bytes,
                              std::span<const std::byte> pad, const BinRow& row) {
  std::size_t at = 0;
  const auto mark = [&row, &at](std::size_t count, std::int32_t number) {
    const auto positions = row.position_ids.subspan(at, count);
    std::iota(positions.begin(), positions.end(), 0);
    std::ranges::fill(row.document_ids.subspan(at, count), number);
    at += count;
  };
  std::int32_t number = 0;
  for (const BinPiece& piece : pieces) mark(piece.range.size_bytes / stored_bytes, number++);
  const std::size_t length = at;
  mark(row.position_ids.size() - length, -1);
  for (std::size_t i = length * pad.size(); i < row.tokens.size(); i += pad.size())
    std::memcpy(row.tokens.data() + i, pad.data(), pad.size());
  return length;
}

}  // namespace stoker::internal
