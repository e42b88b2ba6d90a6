#include "dataset/shard_cache/order_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "base/token.h"
#include "io/files/exact_transfer.h"
#include "io/files/lock_file.h"

namespace stoker {
namespace {

constexpr std::array<char, 8> kOrderMagic = {'S', 'T', 'K', 'O', 'R', 'D', 'R', '1'};

constexpr std::uint64_t kWorldSizeMax = std::uint64_t{1} << 20;

struct RawPlace {
  std::array<char, 8> magic;
  std::array<std::byte, kCursorBytes> cursor;
  std::uint64_t rank;
  std::uint64_t world_size;
  double positions_per_second;
  std::uint32_t reserved;
  std::uint32_t crc32c;  ///< Of the fields before it.
};
static_assert(sizeof(RawPlace) == 144);

std::uint32_t place_crc(const RawPlace& raw) {
  return crc32c(std::as_bytes(std::span(&raw, 1)).first(offsetof(RawPlace, crc32c)));
}

}  // namespace

Digest128 OrderPlace::line() const {
  Cursor start = cursor;
  start.epoch = 0;
  start.position = 0;
  return xxh3_128(encode_cursor(start));
}

std::vector<std::byte> format_order_place(const OrderPlace& place) {
  RawPlace raw{.magic = kOrderMagic,
               .cursor = {},
               .rank = place.rank,
               .world_size = place.world_size,
               .positions_per_second = place.positions_per_second,
               .reserved = 0,
               .crc32c = 0};
  const std::vector<std::byte> cursor = encode_cursor(place.cursor);
  std::copy_n(cursor.begin(), std::min(cursor.size(), raw.cursor.size()), raw.cursor.begin());
  raw.crc32c = place_crc(raw);
  const auto bytes = std::as_bytes(std::span(&raw, 1));
  return {bytes.begin(), bytes.end()};
}

Result<OrderPlace> parse_order_place(std::span<const std::byte> bytes) {
  const auto damaged = [] { return Status(Code::corrupt, "not a valid order file"); };
  RawPlace raw;
  if (bytes.size() != sizeof raw) return damaged();
  std::memcpy(&raw, bytes.data(), sizeof raw);
  if (raw.magic != kOrderMagic || raw.crc32c != place_crc(raw)) return damaged();
  OrderPlace place{.cursor = {},
                   .rank = raw.rank,
                   .world_size = raw.world_size,
                   .positions_per_second = raw.positions_per_second};
  STOKER_ASSIGN(place.cursor, decode_cursor(raw.cursor));
  const std::uint64_t batch = place.cursor.global_batch_size;
  if (place.world_size == 0 || place.world_size > kWorldSizeMax || place.rank >= place.world_size ||
      batch == 0 || batch % place.world_size != 0 || place.cursor.order.sample_count == 0 ||
      !std::isfinite(place.positions_per_second) || place.positions_per_second < 0)
    return damaged();
  return place;
}

Result<std::unique_ptr<OrderFile>> OrderFile::create(FileOps& ops, const PathAt& folder) {
  const PathAt path = folder / make_token();
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW));
  std::unique_ptr<OrderFile> file(new OrderFile(ops, path, std::move(fd)));
  STOKER_TRY(ops.try_lock(file->fd_.get(), LockMode::exclusive).with_context(path.text()));
  return file;
}

OrderFile::~OrderFile() {
  if (fd_.get() >= 0) static_cast<void>(ops_.unlink(path_));  // not in a forked child
}

Status OrderFile::write(const OrderPlace& place) {
  return write_exactly(ops_, fd_.get(), 0, format_order_place(place));
}

std::vector<OrderPlace> read_order_files(FileOps& ops, const PathAt& folder) {
  std::vector<OrderPlace> places;
  const Result<std::vector<DirectoryName>> names = ops.list_names(folder);
  if (!names.ok()) return places;
  for (const DirectoryName& name : *names) {
    const PathAt path = folder / name.name;
    if (name.kind != FileKind::regular) continue;
    Result<UniqueFd> opened = ops.open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (!opened.ok()) continue;
    const ForkClosedFd file(*std::move(opened));
    std::array<std::byte, sizeof(RawPlace) + 1> bytes;
    const ssize_t count = ::pread(file.get(), bytes.data(), bytes.size(), 0);
    // One that is just being made is not locked yet, and has no bytes: it is not removed.
    if (count > 0 && ops.try_lock(file.get(), LockMode::exclusive).ok()) {
      static_cast<void>(ops.unlink(path));
      continue;
    }
    if (count <= 0) continue;
    const Result<OrderPlace> place =
        parse_order_place(std::span(bytes).first(static_cast<std::size_t>(count)));
    if (place.ok()) places.push_back(*place);
  }
  return places;
}

}  // namespace stoker
