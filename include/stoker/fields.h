/// \file
/// The fields of samples: what formats state about them, and as what a loader's batches have them.
/// The loader's threads convert them.
///
///     kind     from a sample's field                                  in the batch
///     own      any                                                    views, and what they are
///     bytes    any                                                    views, no copy
///     text     bytes that must be UTF-8                               views, no copy
///     int64    digits as text, a typed integer, a JSON integer        array [B] of int64
///     float64  digits as text, a typed number, a JSON number          array [B] of float64
///     boolean  true, false, 1 or 0: JSON, text, a typed number        array [B] of bool
///     json     one value of a JSON document, by path                  array [B], or views of text
///     array    .npy, a typed array, or plain elements of `dtype`      array [B, shape...]
///              one number, typed or as text, converted to `dtype`     array [B]
///     ragged   the same, the first dimension of any length            values and offsets
///     pad      the same, padded to `pad_length`                       array [B, pad_length, ...]
///     tokens   a row of Tokens                                        array [B, row]
///     decoded  the input of `decoder`                                 the output of `decoder`
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/api.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// The type of a field's bytes, if the format states it. Numbers are little-endian.
enum class FieldType : std::uint8_t {
  bytes,    ///< Anything, such as an image, or of unknown type.
  text,     ///< UTF-8.
  json,     ///< UTF-8 JSON.
  int64,    ///< One or more numbers.
  float32,  ///< One or more numbers.
  float64,  ///< One or more numbers.
  array,    ///< Elements of type `dtype` with the given `shape`.
};

/// One field of a sample. Its views are valid as long as the sample or the batch that it is from.
struct FieldView {
  std::string_view name;
  std::span<const std::byte> bytes;
  FieldType type = FieldType::bytes;
  std::string_view dtype = {};                ///< For `array`: NumPy's name ("<f4").
  std::span<const std::uint64_t> shape = {};  ///< For `array`; {1} marks one number as a list.
  bool is_implied = false;  ///< Only the name implies the type: the bytes may be something else.
};

/// How a column is made of a field: see the table above.
enum class FieldKind : std::uint8_t {
  own,  ///< As the format defines it: see Column::fields.
  bytes,
  text,
  int64,
  float64,
  boolean,
  json,
  array,
  ragged,
  pad,
  tokens,
  decoded,
};

/// "bytes", "float64": for messages.
STOKER_API std::string_view field_kind_name(FieldKind kind) noexcept;

/// The type of a FieldKind::json column.
enum class JsonType : std::uint8_t { int64, float64, text };

/// What to do about a sample that cannot be read or lacks a requested field.
enum class OnError : std::uint8_t {
  raise,  ///< The batch fails, and the loader stops.
  /// Another sample of the same dataset replaces it, chosen by (seed, epoch, position): batches
  /// keep their shapes, and every run and rank chooses the same. Counted in LoaderStats::replaced.
  skip,
};

/// The sample that a row is made of.
struct STOKER_API DecodeContext {
  std::uint64_t seed = 0;  ///< The loader's.
  std::uint64_t epoch = 0;
  std::uint64_t position = 0;              ///< In the epoch.
  std::span<const std::byte> record = {};  ///< What the sample was split from.

  /// A random number that depends on `seed`, `epoch` and `position` alone. Everything that a
  /// decoder does at random must follow from it: it is then the same on any number of ranks and
  /// threads, and after a resume. All decoders of a sample get the same number, so that an image
  /// and its mask are cropped in the same way.
  std::uint64_t random() const noexcept;
};

/// A program's own kind of field: turns one field of each sample into one row of a column, an array
/// whose rows all have one dtype and one shape. A row may depend on the field and on the context,
/// and on nothing else: neither on the rows before it nor on the thread. Batches are then the same
/// in every run.
///
///     struct Crop final : stoker::FieldDecoder {
///       Crop() : FieldDecoder(stoker::Dtype::uint8, {64, 64, 3}) {}
///       std::unique_ptr<FieldDecoder> clone() const override { return std::make_unique<Crop>(); }
///       stoker::Status decode(const stoker::FieldView& field, const stoker::DecodeContext&
///       context,
///                             std::span<std::byte> out) override;
///     };
///     ... .fields = {{"jpg", stoker::FieldKind::decoded, .decoder = std::make_shared<Crop>()}}
///
/// The settings of a decoder are not part of a cursor: a resumed run must be given the same ones.
///
/// Thread safety: clone() and the const methods may be called from any thread. Each thread of a
/// loader decodes with a clone of its own.
class STOKER_API FieldDecoder {
 public:
  /// `shape` is that of one row. A batch of them must fit into 2^63 bytes.
  FieldDecoder(Dtype dtype, std::vector<std::uint64_t> shape);
  virtual ~FieldDecoder();

  virtual std::unique_ptr<FieldDecoder> clone() const = 0;
  /// Fills all of `out`, which has row_bytes(). An error fails the sample: with OnError::skip
  /// another sample takes its place, whatever the code is. It need not name the field or the
  /// sample. What decode() throws is such an error, too, but for std::bad_alloc, which ends the
  /// run.
  virtual Status decode(const FieldView& field, const DecodeContext& context,
                        std::span<std::byte> out) = 0;

  Dtype dtype() const noexcept { return dtype_; }
  std::span<const std::uint64_t> shape() const noexcept { return shape_; }
  std::size_t row_bytes() const noexcept { return row_bytes_; }

 protected:
  FieldDecoder(const FieldDecoder&) = default;
  FieldDecoder& operator=(const FieldDecoder&) = default;

 private:
  Dtype dtype_;
  std::vector<std::uint64_t> shape_;
  std::size_t row_bytes_;
};

/// One column of a batch.
struct FieldSpec {
  std::string name;                   ///< Name of the column.
  FieldKind kind = FieldKind::bytes;  ///< {"cls", FieldKind::int64} is a whole column.
  /// Name of the field in the sample; empty: `name`. Names separated by semicolons, here or in
  /// `name`, are alternatives: the first one that the sample has is used.
  std::string field = {};

  /// `json`: member names and element numbers, separated by dots: "box.corners.0". Empty: the whole
  /// document.
  std::string json_path = {};
  JsonType json_type = JsonType::int64;

  /// `array`, `ragged`, `pad`: the element type of a field without one; a field that has one (.npy,
  /// MDS, TFRecord) must match, unless it is a single number. `tokens`: int64 to widen; nothing:
  /// the file's dtype.
  std::optional<Dtype> dtype = {};
  /// `array`: the shape of every sample. Default: that of the data's first readable sample.
  std::optional<std::vector<std::uint64_t>> shape = {};

  std::uint64_t pad_length = 0;  ///< `pad`: length of the first dimension.
  double pad_value = 0;          ///< `pad`, `tokens` of packs: must be exact in the dtype.
  bool pad_cut = false;          ///< `pad`: cut longer arrays; false: they are errors.

  std::shared_ptr<const FieldDecoder> decoder = {};  ///< `decoded`: each thread has a clone.

  std::string_view source() const noexcept { return field.empty() ? name : field; }
};

/// `invalid_argument`, with the column: an empty or duplicate name, a dtype or shape for a kind
/// that has none, a pad without a length, a shape of 2^63 elements or more, a decoder for another
/// kind than `decoded`.
STOKER_API Status check_fields(std::span<const FieldSpec> fields);

}  // namespace stoker
