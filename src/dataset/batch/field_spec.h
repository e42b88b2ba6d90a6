/// \file
/// What a caller wants of a sample: which fields, as what. The loader's threads convert them, so
/// that what reaches Python is arrays and views.
///
///     kind     from a sample's field                                  in the batch
///     own      any                                                    views, and what they are
///     bytes    any                                                    views, no copy
///     text     bytes that must be UTF-8                               views, no copy
///     int64    digits as text, a typed integer, a JSON integer        array [B] of int64
///     float64  digits as text, a typed number, a JSON number          array [B] of float64
///     json     one value of a JSON document, by path                  array [B], or views of text
///     array    .npy, a typed array, or plain elements of `dtype`      array [B, shape...]
///              one number, typed or as text, converted to `dtype`     array [B]
///     ragged   the same, the first dimension of any length            values and offsets
///     pad      the same, padded to `pad_length`                       array [B, pad_length, ...]
///     tokens   a token window (see TokenWindows)                      array [B, window + extra]
///     decoded  what `decoder` takes                                   what it makes of it
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "formats/dtype.h"
#include "stoker/status.h"

namespace stoker {

class FieldDecoder;

enum class FieldKind : std::uint8_t {
  own,  ///< Whatever its format says: see Column::fields.
  bytes,
  text,
  int64,
  float64,
  json,
  array,
  ragged,
  pad,
  tokens,
  decoded,
};

/// "bytes", "float64": for messages.
std::string_view field_kind_name(FieldKind kind) noexcept;

/// What FieldKind::json gives.
enum class JsonType : std::uint8_t { int64, float64, text };

/// One column of a batch.
struct FieldSpec {
  std::string name;  ///< Of the column.
  /// Of the field in the sample; empty: the same name. Names between semicolons, here or in `name`,
  /// are alternatives: the first that the sample has.
  std::string field = {};
  FieldKind kind = FieldKind::bytes;

  /// `json`: members by name and elements by number, with dots: "box.corners.0". Empty: the whole
  /// document is the value.
  std::string json_path = {};
  JsonType json_type = JsonType::int64;

  /// `array`, `ragged`, `pad`: what the elements of a field without a type are; of a field with
  /// one (.npy, MDS, TFRecord) it must be the same, unless it is a single number. `tokens`: int64
  /// to widen, or the file's own.
  std::optional<Dtype> dtype = {};
  /// `array`: the shape of every sample. Without it, that of the dataset's first readable sample.
  std::optional<std::vector<std::uint64_t>> shape = {};

  std::uint64_t pad_length = 0;  ///< `pad`: of the first dimension.
  double pad_value = 0;          ///< `pad`, `tokens` of packs: must be exact in the dtype.
  bool pad_cut = false;          ///< `pad`: a longer one is cut; else it is an error.

  std::shared_ptr<const FieldDecoder> decoder = {};  ///< `decoded`: each thread has a clone.

  std::string_view source() const noexcept { return field.empty() ? name : field; }
};

/// `invalid_argument` names the column: a duplicate or empty name, a dtype for what has
/// none, a pad without a length, a shape past 2^63 bytes.
Status check_fields(std::span<const FieldSpec> fields);

}  // namespace stoker
