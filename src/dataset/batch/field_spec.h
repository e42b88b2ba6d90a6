/// \file
/// Which fields of a sample the caller wants, and as what. The loader's threads convert them, so
/// that Python gets arrays and views.
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
///     tokens   a token window (see TokenWindows)                      array [B, window + extra]
///     decoded  the input of `decoder`                                 the output of `decoder`
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

class FieldDecoder;

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
std::string_view field_kind_name(FieldKind kind) noexcept;

/// The type of a FieldKind::json column.
enum class JsonType : std::uint8_t { int64, float64, text };

/// One column of a batch.
struct FieldSpec {
  std::string name;  ///< Name of the column.
  /// Name of the field in the sample; empty: `name`. Names separated by semicolons, here or in
  /// `name`, are alternatives: the first one that the sample has is used.
  std::string field = {};
  FieldKind kind = FieldKind::bytes;

  /// `json`: member names and element numbers, separated by dots: "box.corners.0". Empty: the whole
  /// document.
  std::string json_path = {};
  JsonType json_type = JsonType::int64;

  /// `array`, `ragged`, `pad`: the element type of a field without one; a field that has one (.npy,
  /// MDS, TFRecord) must match, unless it is a single number. `tokens`: int64 to widen; nothing:
  /// the file's dtype.
  std::optional<Dtype> dtype = {};
  /// `array`: the shape of every sample. Default: that of the dataset's first readable sample.
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
Status check_fields(std::span<const FieldSpec> fields);

}  // namespace stoker
