/// \file
/// The part of Protocol Buffers' wire format that tf.Example needs: varints, fixed32, fixed64 and
/// length-delimited fields. Stricter than the protobuf library, which accepts what no writer
/// produces: varints of more than 64 bits, groups, field number 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, delimited = 2, fixed32 = 5 };

/// One field of a message.
struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t varint = 0;          ///< For `varint`.
  std::span<const std::byte> bytes;  ///< For every other type: the value, inside the message.
  std::uint64_t offset_bytes = 0;    ///< Offset of its tag, for error messages.
  std::uint64_t value_offset_bytes = 0;
};

/// Iterates over the fields of one message. Allocates only to report an error.
///
/// Thread safety: none.
class WireReader {
 public:
  /// `offset_bytes` is the offset of `message` in its shard, for error messages.
  explicit WireReader(std::span<const std::byte> message, std::uint64_t offset_bytes = 0) noexcept
      : rest_(message), offset_bytes_(offset_bytes) {}

  bool done() const noexcept { return rest_.empty(); }
  /// Returns the offset of the next byte.
  std::uint64_t offset_bytes() const noexcept { return offset_bytes_; }

  /// Reads the next field. `corrupt` names the offset; the reader must not be used after an error.
  Status next(WireField& out);

  /// Reads the next varint, for the contents of packed fields.
  Status next_varint(std::uint64_t& out);

 private:
  void skip(std::size_t size_bytes) noexcept {
    rest_ = rest_.subspan(size_bytes);
    offset_bytes_ += size_bytes;
  }
  Status take(std::uint64_t size_bytes, std::string_view what, WireField& out);

  std::span<const std::byte> rest_;
  std::uint64_t offset_bytes_;
};

/// The put functions append to `out`.
void put_varint(std::vector<std::byte>& out, std::uint64_t value);
void put_tag(std::vector<std::byte>& out, std::uint32_t number, WireType type);
/// Appends tag, length and value.
void put_delimited(std::vector<std::byte>& out, std::uint32_t number,
                   std::span<const std::byte> value);

/// Returns the size of put_varint(): 1 to 10.
std::size_t varint_size_bytes(std::uint64_t value) noexcept;
/// Returns the size of put_delimited() for a value of that size and a field number below 16.
std::uint64_t delimited_size_bytes(std::uint64_t value_size_bytes) noexcept;

}  // namespace stoker
