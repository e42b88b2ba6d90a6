#include "stoker/dtype.h"

#include <array>
#include <string>

namespace stoker {
namespace {

struct DtypeRow {
  Dtype dtype;
  std::string_view name;
  std::string_view short_name;
  std::string_view descr;
  std::size_t size_bytes;
};

// In the order of the enumerators: a dtype is the index of its row.
constexpr std::array<DtypeRow, 13> kRows = {{
    {Dtype::uint8, "uint8", "u1", "|u1", 1},
    {Dtype::int8, "int8", "i1", "|i1", 1},
    {Dtype::uint16, "uint16", "u2", "<u2", 2},
    {Dtype::int16, "int16", "i2", "<i2", 2},
    {Dtype::uint32, "uint32", "u4", "<u4", 4},
    {Dtype::int32, "int32", "i4", "<i4", 4},
    {Dtype::uint64, "uint64", "u8", "<u8", 8},
    {Dtype::int64, "int64", "i8", "<i8", 8},
    {Dtype::float16, "float16", "f2", "<f2", 2},
    {Dtype::float32, "float32", "f4", "<f4", 4},
    {Dtype::float64, "float64", "f8", "<f8", 8},
    {Dtype::bfloat16, "bfloat16", "bf16", "<u2", 2},
    {Dtype::boolean, "bool", "b1", "|b1", 1},
}};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kRows.size(); ++i)
    if (static_cast<std::size_t>(kRows[i].dtype) != i) return false;
  return true;
}
static_assert(rows_are_in_order());

const DtypeRow& row_of(Dtype dtype) noexcept {
  return kRows[static_cast<std::size_t>(dtype)];
}

/// Quotes text from a file for a message: truncated and without control characters.
std::string quoted(std::string_view text) {
  constexpr std::size_t kLengthMax = 32;
  std::string out = "'";
  for (const char c : text.substr(0, kLengthMax)) out += c >= ' ' && c <= '~' ? c : '?';
  return out + (text.size() > kLengthMax ? "...'" : "'");
}

}  // namespace

std::size_t dtype_size_bytes(Dtype dtype) noexcept {
  return row_of(dtype).size_bytes;
}
std::string_view dtype_name(Dtype dtype) noexcept {
  return row_of(dtype).name;
}
std::string_view dtype_descr(Dtype dtype) noexcept {
  return row_of(dtype).descr;
}

Result<Dtype> parse_dtype(std::string_view name) {
  for (const DtypeRow& row : kRows)
    if (name == row.name || name == row.short_name) return row.dtype;
  std::string all;
  for (const DtypeRow& row : kRows) all.append(all.empty() ? "" : ", ").append(row.name);
  return Status(Code::invalid_argument, "unknown dtype " + quoted(name) + "; there are " + all);
}

Result<Dtype> dtype_from_descr(std::string_view descr) {
  const std::string shown = quoted(descr);
  if (descr.size() >= 2) {
    const std::string_view kind = descr.substr(1);
    for (const DtypeRow& row : kRows) {
      if (kind != row.descr.substr(1)) continue;  // the first "u2" is uint16
      if (descr[0] == '<' || (descr[0] == '|' && row.size_bytes == 1)) return row.dtype;
      if (descr[0] == '>' && row.size_bytes > 1)
        return Status(Code::unsupported, "dtype " + shown + " is big-endian; save it again as '" +
                                             std::string(row.descr) + "'");
    }
    if (kind[0] == 'O')
      return Status(Code::unsupported, "dtype " + shown +
                                           " holds Python objects, that is a pickle, which can run "
                                           "code when it is read; save an array of numbers");
  }
  return Status(Code::unsupported, "dtype " + shown + " is not one of integers up to 8 bytes, " +
                                       "floats of 2, 4 or 8, and bool; save the array as one");
}

}  // namespace stoker
