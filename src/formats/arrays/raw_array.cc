#include "formats/arrays/raw_array.h"

#include <cstring>
#include <limits>
#include <string>
#include <string_view>

namespace stoker {
namespace {

constexpr std::string_view kShard001Magic = "SHARD001";

Status corrupt(std::uint64_t offset_bytes, const std::string& what) {
  return Status(Code::corrupt, "offset " + std::to_string(offset_bytes) + ": " + what);
}

enum class Endian : std::uint8_t { little, big };

std::uint64_t load_u64(std::span<const std::byte> bytes, std::size_t offset, Endian endian) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 8; ++i)
    value = value << 8 |
            std::to_integer<std::uint64_t>(bytes[offset + (endian == Endian::big ? i : 7 - i)]);
  return value;
}

void store_u64(std::span<std::byte> bytes, std::size_t offset, Endian endian, std::uint64_t value) {
  for (std::size_t i = 0; i < 8; ++i, value >>= 8)
    bytes[offset + (endian == Endian::big ? 7 - i : i)] = static_cast<std::byte>(value & 0xFF);
}

/// Returns the size of the data; fails with `code` if there can be no such array.
Result<std::uint64_t> data_size_bytes(const ArrayRows& rows, Code code) {
  const std::string shown = std::to_string(rows.samples) + " samples of " +
                            std::to_string(rows.width) + " " + std::string(dtype_name(rows.dtype));
  if (rows.samples != 0 && rows.width == 0) return Status(code, shown + ": rows without elements");
  std::uint64_t size_bytes = 0;
  if (__builtin_mul_overflow(rows.samples, rows.width, &size_bytes) ||
      __builtin_mul_overflow(size_bytes, dtype_size_bytes(rows.dtype), &size_bytes) ||
      size_bytes > std::numeric_limits<std::int64_t>::max())
    return Status(code, shown + " are more bytes than 63 bits can count");
  return size_bytes;
}

Result<ArrayRows> checked(const ArrayRows& rows, std::uint64_t counts_at,
                          std::uint64_t size_bytes) {
  Result<std::uint64_t> data_bytes = data_size_bytes(rows, Code::corrupt);
  if (!data_bytes.ok())
    return data_bytes.status().with_context("offset " + std::to_string(counts_at));
  const std::uint64_t have_bytes = size_bytes - rows.data_offset_bytes;
  if (*data_bytes != have_bytes)
    return corrupt(counts_at,
                   std::to_string(rows.samples) + " samples of " + std::to_string(rows.width) +
                       " " + std::string(dtype_name(rows.dtype)) + " are " +
                       std::to_string(*data_bytes) + " bytes, but " + std::to_string(have_bytes) +
                       " follow the header; if the elements are of another dtype, state it");
  return rows;
}

Status check_head(std::span<const std::byte> head, std::uint64_t size_bytes,
                  std::uint64_t head_bytes) {
  if (size_bytes < head_bytes)
    return corrupt(size_bytes,
                   "the file ends in its header of " + std::to_string(head_bytes) + " bytes");
  if (head.size() < head_bytes)
    return Status(Code::invalid_argument, "the parser got " + std::to_string(head.size()) +
                                              " bytes of a header of " +
                                              std::to_string(head_bytes));
  return {};
}

}  // namespace

Result<ArrayRows> parse_raw_array(std::uint64_t size_bytes, Dtype dtype) {
  const std::uint64_t item_bytes = dtype_size_bytes(dtype);
  if (size_bytes % item_bytes != 0)
    return corrupt(size_bytes - size_bytes % item_bytes,
                   "the file's " + std::to_string(size_bytes) +
                       " bytes are not a multiple of the " + std::to_string(item_bytes) + " of a " +
                       std::string(dtype_name(dtype)));
  return ArrayRows{.dtype = dtype,
                   .samples = size_bytes == 0 ? 0U : 1U,
                   .width = size_bytes / item_bytes,
                   .data_offset_bytes = 0};
}

Result<ArrayRows> parse_counted_array(std::span<const std::byte> head, std::uint64_t size_bytes,
                                      Dtype dtype) {
  STOKER_TRY(check_head(head, size_bytes, kCountedHeadBytes));
  return checked({.dtype = dtype,
                  .samples = load_u64(head, 0, Endian::little),
                  .width = load_u64(head, 8, Endian::little),
                  .data_offset_bytes = kCountedHeadBytes},
                 0, size_bytes);
}

Result<ArrayRows> parse_shard001_array(std::span<const std::byte> head, std::uint64_t size_bytes,
                                       Dtype dtype) {
  STOKER_TRY(check_head(head, size_bytes, kShard001HeadBytes));
  if (std::memcmp(head.data(), kShard001Magic.data(), kShard001Magic.size()) != 0)
    return corrupt(0, "the file does not begin with SHARD001");
  return checked({.dtype = dtype,
                  .samples = load_u64(head, 8, Endian::big),
                  .width = load_u64(head, 16, Endian::big),
                  .data_offset_bytes = kShard001HeadBytes},
                 8, size_bytes);
}

Result<std::vector<std::byte>> make_counted_head(std::uint64_t samples, std::uint64_t length,
                                                 Dtype dtype) {
  const ArrayRows rows{.dtype = dtype, .samples = samples, .width = length};
  if (Result<std::uint64_t> size = data_size_bytes(rows, Code::invalid_argument); !size.ok())
    return size.status();
  std::vector<std::byte> head(kCountedHeadBytes);
  store_u64(head, 0, Endian::little, samples);
  store_u64(head, 8, Endian::little, length);
  return head;
}

Result<std::vector<std::byte>> make_shard001_head(std::uint64_t samples, std::uint64_t width,
                                                  Dtype dtype) {
  const ArrayRows rows{.dtype = dtype, .samples = samples, .width = width};
  if (Result<std::uint64_t> size = data_size_bytes(rows, Code::invalid_argument); !size.ok())
    return size.status();
  std::vector<std::byte> head(kShard001HeadBytes);
  std::memcpy(head.data(), kShard001Magic.data(), kShard001Magic.size());
  store_u64(head, 8, Endian::big, samples);
  store_u64(head, 16, Endian::big, width);
  return head;
}

}  // namespace stoker
