#include "formats/arrays/tokens.h"

#include <array>
#include <string>

#include "formats/arrays/npy.h"
#include "formats/arrays/raw_array.h"

namespace stoker {
namespace {

struct FormatRow {
  TokenFormat format;
  std::string_view name;
  std::uint64_t head_bytes_max;
};

// In the order of the enumerators: a format is the index of its row.
constexpr std::array<FormatRow, 4> kFormats = {{
    {TokenFormat::raw, "raw", 0},
    {TokenFormat::npy, "npy", kNpyHeadBytesMax},
    {TokenFormat::counted, "counted", kCountedHeadBytes},
    {TokenFormat::shard001, "shard001", kShard001HeadBytes},
}};

const FormatRow& row_of(TokenFormat format) noexcept {
  return kFormats[static_cast<std::size_t>(format)];
}

TokenLayout layout_of(const ArrayRows& rows) {
  const std::uint64_t token_count = rows.samples * rows.width;  // checked by the parser
  return {.dtype = rows.dtype,
          .data_offset_bytes = rows.data_offset_bytes,
          .token_count = token_count,
          .sequence_count = token_count == 0 ? 0 : rows.samples,
          .sequence_length = token_count == 0 ? 0 : rows.width};
}

Result<TokenLayout> parse_npy_tokens(std::span<const std::byte> head, std::uint64_t size_bytes,
                                     std::optional<Dtype> dtype) {
  STOKER_ASSIGN(const NpyArray array, parse_npy(head, size_bytes));
  if (dtype && dtype_descr(*dtype) != dtype_descr(array.dtype))
    return Status(Code::invalid_argument, "the file holds " + std::string(dtype_name(array.dtype)) +
                                              ", not " + std::string(dtype_name(*dtype)));
  ArrayRows rows{.dtype = dtype.value_or(array.dtype),
                 .samples = 1,
                 .width = array.element_count,
                 .data_offset_bytes = array.data_offset_bytes};
  if (array.shape.size() > 1 && array.element_count != 0) {
    rows.samples = array.shape[0];
    rows.width = array.element_count / array.shape[0];
  }
  return layout_of(rows);
}

}  // namespace

std::string_view token_format_name(TokenFormat format) noexcept {
  return row_of(format).name;
}

Result<TokenFormat> parse_token_format(std::string_view name) {
  for (const FormatRow& row : kFormats)
    if (row.name == name) return row.format;
  std::string all;
  for (const FormatRow& row : kFormats) all.append(all.empty() ? "" : ", ").append(row.name);
  return Status(Code::invalid_argument,
                "unknown token format '" + std::string(name) + "'; there are " + all);
}

std::uint64_t token_head_bytes_max(TokenFormat format) noexcept {
  return row_of(format).head_bytes_max;
}

ByteRange TokenLayout::sequence(std::uint64_t i) const noexcept {
  if (index) return index->sequence(i);
  const std::uint64_t size_bytes = sequence_length * item_bytes();
  return {data_offset_bytes + i * size_bytes, size_bytes};
}

std::uint64_t TokenLayout::document_count() const noexcept {
  return index ? index->document_count() : sequence_count;
}

DocumentRange TokenLayout::document(std::uint64_t i) const noexcept {
  return index ? index->document(i) : DocumentRange{.first_sequence = i, .sequence_count = 1};
}

Result<TokenLayout> parse_tokens(TokenFormat format, std::span<const std::byte> head,
                                 std::uint64_t size_bytes, std::optional<Dtype> dtype) {
  switch (format) {
    case TokenFormat::raw: {
      if (!dtype)
        return Status(Code::invalid_argument,
                      "a raw array does not say its dtype: give --dtype uint16 (dtype=\"uint16\" "
                      "in Python), or what it is");
      STOKER_ASSIGN(const ArrayRows rows, parse_raw_array(size_bytes, *dtype));
      return layout_of(rows);
    }
    case TokenFormat::npy: return parse_npy_tokens(head, size_bytes, dtype);
    case TokenFormat::counted: {
      STOKER_ASSIGN(const ArrayRows rows,
                    parse_counted_array(head, size_bytes, dtype.value_or(kCountedDtype)));
      return layout_of(rows);
    }
    case TokenFormat::shard001: {
      STOKER_ASSIGN(const ArrayRows rows,
                    parse_shard001_array(head, size_bytes, dtype.value_or(kShard001Dtype)));
      return layout_of(rows);
    }
  }
  return Status(Code::invalid_argument, "no such token format");
}

Result<TokenLayout> layout_of_megatron(std::span<const std::byte> idx,
                                       std::uint64_t bin_size_bytes) {
  STOKER_ASSIGN(const MegatronIndexView index, MegatronIndexView::open(idx));
  STOKER_TRY(index.validate(bin_size_bytes));
  return TokenLayout{.dtype = index.dtype(),
                     .token_count = bin_size_bytes / dtype_size_bytes(index.dtype()),
                     .sequence_count = index.sequence_count(),
                     .index = index};
}

}  // namespace stoker
