/// \file
/// Token files of every kind, as one thing to the layers above: elements of one dtype, one after
/// the other, cut into sequences and documents. They are arrays, not records of named fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/arrays/megatron.h"
#include "formats/dtype.h"
#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// The kinds that are one file. Megatron's are two: layout_of_megatron().
enum class TokenFormat : std::uint8_t {
  raw,       ///< Data only (raw_array.h).
  npy,       ///< NumPy's (npy.h).
  counted,   ///< Three u64, then data (raw_array.h).
  shard001,  ///< "SHARD001", 64 bytes, then data (raw_array.h).
};

/// "raw", "npy", "counted", "shard001".
std::string_view token_format_name(TokenFormat format) noexcept;
/// Reads token_format_name(); `invalid_argument`, with all of them, for anything else.
Result<TokenFormat> parse_token_format(std::string_view name);

/// As much of the beginning of a file as parse_tokens() may want.
std::uint64_t token_head_bytes_max(TokenFormat format) noexcept;

/// Where the tokens lie. The data are contiguous: sequence i + 1 begins where sequence i ends, and
/// all of them lie inside the file that they were parsed from.
///
/// Thread safety: immutable.
struct TokenLayout {
  Dtype dtype = Dtype::int32;
  std::uint64_t data_offset_bytes = 0;
  std::uint64_t token_count = 0;
  std::uint64_t sequence_count = 0;
  /// The length of every sequence, where there is no `index`: a 1-D array is one sequence, and an
  /// array of more dimensions has one for each entry of the first. An empty array has none.
  std::uint64_t sequence_length = 0;
  /// Megatron's: sequences of any length, and documents. The memory it looks at outlives it.
  std::optional<MegatronIndexView> index = {};

  std::uint64_t item_bytes() const noexcept { return dtype_size_bytes(dtype); }
  std::uint64_t data_size_bytes() const noexcept { return token_count * item_bytes(); }

  /// Where sequence `i` < sequence_count lies in the file of the data.
  ByteRange sequence(std::uint64_t i) const noexcept;
  /// Without an index each sequence is a document.
  std::uint64_t document_count() const noexcept;
  /// Document `i` < document_count().
  DocumentRange document(std::uint64_t i) const noexcept;
};

/// Looks at the header and the size of a file; never at its data. `dtype` is needed for `raw`, says
/// what `counted` and `shard001` hold where that is not the usual, and for `npy`, which says it
/// itself, must be the same (bfloat16 for the uint16 that carries it is the same).
Result<TokenLayout> parse_tokens(TokenFormat format, std::span<const std::byte> head,
                                 std::uint64_t size_bytes, std::optional<Dtype> dtype = {});

/// Validates every entry of the index once, in time proportional to it: see
/// MegatronIndexView::validate().
Result<TokenLayout> layout_of_megatron(std::span<const std::byte> idx,
                                       std::uint64_t bin_size_bytes);

/// Writes one file of `samples` rows of `length` tokens, header first; what it writes,
/// parse_tokens() of the same format and dtype reads. `npy` files have two dimensions.
///
/// Thread safety: none.
class TokenWriter {
 public:
  struct Shape {
    std::uint64_t samples = 0;
    std::uint64_t length = 0;
  };

  /// Writes the header. `sink` outlives the writer.
  static Result<TokenWriter> make(ByteSink& sink, TokenFormat format, Dtype dtype, Shape shape);

  /// The next tokens, whole ones, in any pieces. `invalid_argument`, and nothing written, if they
  /// are more than the shape has room for.
  Status append(std::span<const std::byte> tokens);
  /// `invalid_argument` if tokens are missing.
  Status finish();

 private:
  TokenWriter(ByteSink& sink, Dtype dtype, std::uint64_t rest_bytes)
      : sink_(&sink), dtype_(dtype), rest_bytes_(rest_bytes) {}

  ByteSink* sink_;
  Dtype dtype_;
  std::uint64_t rest_bytes_;
  Status failure_;
};

}  // namespace stoker
