/// \file
/// Megatron's indexed datasets. `<name>.bin` contains the tokens of all sequences, back to back,
/// and `<name>.idx` says where each sequence and document begins:
///
///     offset  size         what
///     0       9            "MMIDIDX\0\0"
///     9       8            u64 version, 1
///     17      1            u8 dtype: 1 u8, 2 i8, 3 i16, 4 i32, 5 i64, 6 f64, 7 f32, 8 u16
///     18      8            u64 S, the number of sequences
///     26      8            u64 D, the number of document boundaries: documents + 1
///     34      4 * S        i32 tokens of each sequence
///     ...     8 * S        i64 byte offset of each sequence in .bin
///     ...     8 * D        i64 boundaries: the first sequence of each document, then S
///     ...     S, or none   i8 mode of each sequence, in multimodal datasets only
///
/// Little-endian. The arrays begin at byte 34, so none of them is aligned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "formats/shard_format.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// The sequences [first, first + count) of a document.
struct DocumentRange {
  std::uint64_t first_sequence = 0;
  std::uint64_t sequence_count = 0;

  bool operator==(const DocumentRange&) const = default;
};

/// A view of an `.idx` in memory that the caller owns (it may be a mapped file of gigabytes). The
/// view itself is a few words, and every query takes constant time.
///
/// Thread safety: immutable.
class MegatronIndexView {
 public:
  /// Checks the header and the size of the file, which must be exactly what the header's counts
  /// add up to. `corrupt` or `unsupported` (another version) otherwise. `idx` outlives the view.
  static Result<MegatronIndexView> open(std::span<const std::byte> idx);

  /// Checks every entry once: lengths are not negative; each sequence begins where the previous
  /// one ends, as in all files that Megatron writes, so that none overlap and no tokens are lost;
  /// the last sequence ends at `bin_size_bytes`, the end of the `.bin`; boundaries begin at 0,
  /// never decrease, and end at sequence_count(). `corrupt` names the entry and its offset. Until
  /// validate() has passed, sequence() and document() may return ranges outside the data.
  Status validate(std::uint64_t bin_size_bytes) const;

  Dtype dtype() const noexcept { return dtype_; }
  std::uint64_t sequence_count() const noexcept { return sequence_count_; }
  std::uint64_t document_count() const noexcept { return boundary_count_ - 1; }
  bool multimodal() const noexcept { return multimodal_; }

  /// Returns the range of sequence `i` < sequence_count() in the `.bin`.
  ByteRange sequence(std::uint64_t i) const noexcept;
  std::uint64_t sequence_tokens(std::uint64_t i) const noexcept;
  /// Returns the sequences of document `i` < document_count().
  DocumentRange document(std::uint64_t i) const noexcept;
  /// Returns the mode of sequence `i`; 0 if the dataset is not multimodal().
  std::int8_t mode(std::uint64_t i) const noexcept;

 private:
  MegatronIndexView() = default;
  std::uint64_t pointers_at() const noexcept;
  std::uint64_t boundaries_at() const noexcept;
  std::uint64_t modes_at() const noexcept;

  std::span<const std::byte> idx_;
  std::uint64_t sequence_count_ = 0;
  std::uint64_t boundary_count_ = 0;
  Dtype dtype_ = Dtype::int32;
  bool multimodal_ = false;
};

/// Returns the code of `dtype` in an `.idx`. `invalid_argument` lists the dtypes that have one.
Result<std::uint8_t> megatron_dtype_code(Dtype dtype);

struct MegatronWriterOptions {
  /// uint16 halves the file if the vocabulary fits; Megatron uses it below 65,500 tokens.
  Dtype dtype = Dtype::int32;
  bool multimodal = false;  ///< Write the modes.
};

/// Writes one dataset: tokens go to the `.bin` as they are appended, the `.idx` is written at the
/// end. Keeps 4 bytes of memory per sequence and 8 per document.
///
/// Thread safety: none.
class MegatronWriter {
 public:
  /// `bin` outlives the writer.
  static Result<MegatronWriter> make(ByteSink& bin, MegatronWriterOptions options = {});

  /// Adds a sequence of whole tokens, fewer than 2^31. `invalid_argument` changes nothing.
  Status append(std::span<const std::byte> tokens, std::int8_t mode = 0);
  /// Ends the current document: the sequences since the last call. It may be empty.
  Status end_document();
  /// Writes the `.idx`, in pieces. `invalid_argument` if sequences were appended after the last
  /// end_document(). Nothing may be appended afterwards.
  Status finish(ByteSink& idx);

  std::uint64_t sequence_count() const noexcept { return lengths_.size(); }
  std::uint64_t document_count() const noexcept { return boundaries_.size() - 1; }
  std::uint64_t bin_size_bytes() const noexcept { return bin_size_bytes_; }

 private:
  MegatronWriter(ByteSink& bin, MegatronWriterOptions options, std::uint8_t dtype_code)
      : bin_(&bin), options_(options), dtype_code_(dtype_code) {}
  Status check_open() const;
  Status write_index(ByteSink& idx) const;

  ByteSink* bin_;
  MegatronWriterOptions options_;
  std::uint8_t dtype_code_;
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> boundaries_{0};
  std::vector<std::int8_t> modes_;
  std::uint64_t bin_size_bytes_ = 0;
  Status failure_;
  bool finished_ = false;
};

}  // namespace stoker
