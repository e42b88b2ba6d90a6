/// \file
/// Protocol Buffers' wire format, as much of it as tf.Example needs: varints, fixed32, fixed64 and
/// length-delimited fields. Stricter than the protobuf library where it accepts what no writer
/// makes: varints of more than 64 bits, groups, field number 0.
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
  std::span<const std::byte> bytes;  ///< The value for every other type, inside the message.
  std::uint64_t offset_bytes = 0;    ///< Where its tag stands, for messages.
  std::uint64_t value_offset_bytes = 0;
};

/// Walks the fields of one message. Allocates only to report an error.
///
/// Thread safety: none.
class WireReader {
 public:
  /// `offset_bytes` is where the message lies in its shard, for messages.
  explicit WireReader(std::span<const std::byte> message, std::uint64_t offset_bytes = 0) noexcept
      : rest_(message), offset_bytes_(offset_bytes) {}

  bool done() const noexcept { return rest_.empty(); }
  /// Where the next byte lies.
  std::uint64_t offset_bytes() const noexcept { return offset_bytes_; }

  /// The next field. `corrupt` names the offset; the reader is of no further use then.
  Status next(WireField& out);

  /// The next varint, for the inside of packed fields.
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

/// Appends to `out`.
void put_varint(std::vector<std::byte>& out, std::uint64_t value);
void put_tag(std::vector<std::byte>& out, std::uint32_t number, WireType type);
/// Tag, length and value.
void put_delimited(std::vector<std::byte>& out, std::uint32_t number,
                   std::span<const std::byte> value);

/// Size of put_varint(): 1 to 10.
std::size_t varint_size_bytes(std::uint64_t value) noexcept;
/// Size of put_delimited() for a value of that size and a field number below 16.
std::uint64_t delimited_size_bytes(std::uint64_t value_size_bytes) noexcept;

}  // namespace stoker
