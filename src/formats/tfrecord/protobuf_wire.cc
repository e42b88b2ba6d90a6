#include "formats/tfrecord/protobuf_wire.h"

#include <bit>
#include <limits>
#include <string>

namespace stoker {
namespace {

constexpr std::size_t kVarintSizeMax = 10;

Status corrupt(std::uint64_t offset_bytes, const std::string& what) {
  return Status(Code::corrupt, "offset " + std::to_string(offset_bytes) + ": " + what);
}

}  // namespace

Status WireReader::next_varint(std::uint64_t& out) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < kVarintSizeMax; ++i) {
    if (i == rest_.size()) return corrupt(offset_bytes_, "a varint is cut off");
    const auto byte = std::to_integer<std::uint64_t>(rest_[i]);
    if (i == kVarintSizeMax - 1 && byte > 1)  // 9 * 7 bits are taken; one is left of 64
      return corrupt(offset_bytes_, "a varint has more than 64 bits");
    value |= (byte & 0x7F) << (7 * i);
    if (byte < 0x80) {
      skip(i + 1);
      out = value;
      return {};
    }
  }
  return corrupt(offset_bytes_, "a varint has more than 10 bytes");
}

Status WireReader::take(std::uint64_t size_bytes, std::string_view what, WireField& out) {
  if (size_bytes > rest_.size())
    return corrupt(out.offset_bytes, std::string(what) + " of " + std::to_string(size_bytes) +
                                         " bytes in field " + std::to_string(out.number) +
                                         ", but its message has only " +
                                         std::to_string(rest_.size()) + " left");
  out.value_offset_bytes = offset_bytes_;
  out.bytes = rest_.first(static_cast<std::size_t>(size_bytes));
  skip(static_cast<std::size_t>(size_bytes));
  return {};
}

Status WireReader::next(WireField& out) {
  out = {};
  out.offset_bytes = offset_bytes_;
  std::uint64_t tag = 0;
  STOKER_TRY(next_varint(tag));
  if (tag > std::numeric_limits<std::uint32_t>::max())
    return corrupt(out.offset_bytes, "a field number does not fit 29 bits");
  out.number = static_cast<std::uint32_t>(tag >> 3);
  if (out.number == 0) return corrupt(out.offset_bytes, "field number 0");
  switch (tag & 7) {
    case 0:
      out.type = WireType::varint;
      out.value_offset_bytes = offset_bytes_;
      return next_varint(out.varint);
    case 1: out.type = WireType::fixed64; return take(8, "a fixed64", out);
    case 2: {
      out.type = WireType::delimited;
      std::uint64_t size_bytes = 0;
      STOKER_TRY(next_varint(size_bytes));
      return take(size_bytes, "a value", out);
    }
    case 5: out.type = WireType::fixed32; return take(4, "a fixed32", out);
    case 3:
    case 4: return corrupt(out.offset_bytes, "a group, which no Example holds");
    default: return corrupt(out.offset_bytes, "wire type " + std::to_string(tag & 7));
  }
}

void put_varint(std::vector<std::byte>& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<std::byte>(value | 0x80));
  out.push_back(static_cast<std::byte>(value));
}

void put_tag(std::vector<std::byte>& out, std::uint32_t number, WireType type) {
  put_varint(out, std::uint64_t{number} << 3 | static_cast<std::uint64_t>(type));
}

void put_delimited(std::vector<std::byte>& out, std::uint32_t number,
                   std::span<const std::byte> value) {
  put_tag(out, number, WireType::delimited);
  put_varint(out, value.size());
  out.insert(out.end(), value.begin(), value.end());
}

std::size_t varint_size_bytes(std::uint64_t value) noexcept {
  return (static_cast<std::size_t>(std::bit_width(value | 1)) + 6) / 7;
}

std::uint64_t delimited_size_bytes(std::uint64_t value_size_bytes) noexcept {
  return 1 + varint_size_bytes(value_size_bytes) + value_size_bytes;
}

}  // namespace stoker
