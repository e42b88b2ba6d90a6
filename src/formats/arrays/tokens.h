/// \file
/// Token files of every kind, as the layers above see them: elements of one dtype, stored back to
/// back, divided into sequences and documents. They are arrays, not records of named fields.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "formats/arrays/megatron.h"
#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// The formats with one file per dataset. Megatron's has two: layout_of_megatron().
enum class TokenFormat : std::uint8_t {
  raw,       ///< Data only (raw_array.h).
  npy,       ///< NumPy's (npy.h).
  counted,   ///< Three u64, then data (raw_array.h).
  shard001,  ///< "SHARD001", 64 bytes, then data (raw_array.h).
};

/// Returns "raw", "npy", "counted" or "shard001".
std::string_view token_format_name(TokenFormat format) noexcept;
/// Parses a token_format_name(); `invalid_argument`, with all names, for anything else.
Result<TokenFormat> parse_token_format(std::string_view name);

/// Returns the most bytes from the beginning of a file that parse_tokens() needs.
std::uint64_t token_head_bytes_max(TokenFormat format) noexcept;

/// Where the tokens are in a file. The data are contiguous: sequence i + 1 begins where sequence i
/// ends, and all of them are inside the file that was parsed.
///
/// Thread safety: immutable.
struct TokenLayout {
  Dtype dtype = Dtype::int32;
  std::uint64_t data_offset_bytes = 0;
  std::uint64_t token_count = 0;
  std::uint64_t sequence_count = 0;
  /// Length of every sequence if there is no `index`: a 1-D array is one sequence, an array of
  /// more dimensions has one sequence per entry of the first. An empty array has none.
  std::uint64_t sequence_length = 0;
  /// Megatron's index: sequences of any length, and documents. Its memory outlives the layout.
  std::optional<MegatronIndexView> index = {};

  std::uint64_t item_bytes() const noexcept { return dtype_size_bytes(dtype); }
  std::uint64_t data_size_bytes() const noexcept { return token_count * item_bytes(); }

  /// Returns the range of sequence `i` < sequence_count in the data file.
  ByteRange sequence(std::uint64_t i) const noexcept;
  /// Without an index each sequence is a document.
  std::uint64_t document_count() const noexcept;
  /// Returns the sequences of document `i` < document_count().
  DocumentRange document(std::uint64_t i) const noexcept;
};

/// Parses the header and checks the size of a file; does not read its data. `dtype` is required for
/// `raw` and overrides the default dtype of `counted` and `shard001`. An `npy` file states its
/// dtype: `dtype` must be the same (bfloat16 is accepted for uint16, which carries it).
Result<TokenLayout> parse_tokens(TokenFormat format, std::span<const std::byte> head,
                                 std::uint64_t size_bytes, std::optional<Dtype> dtype = {});

/// Validates every entry of the index once, in time proportional to it: see
/// MegatronIndexView::validate().
Result<TokenLayout> layout_of_megatron(std::span<const std::byte> idx,
                                       std::uint64_t bin_size_bytes);

/// Writes one file of `samples` rows of `length` tokens, header first, that parse_tokens() reads
/// with the same format and dtype. `npy` files have two dimensions.
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

  /// Writes the next tokens. Any number of whole tokens per call. `invalid_argument`, with nothing
  /// written, if they exceed the shape.
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
