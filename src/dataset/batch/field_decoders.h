/// \file
/// The decoders of the kinds in field_spec.h.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "dataset/batch/field_decoder.h"
#include "dataset/batch/field_spec.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Whether the decoder depends on what a sample of the dataset looks like.
bool wants_sample(const FieldSpec& spec) noexcept;

/// The decoder of a column. `seen`: the field of the dataset's first readable sample, where
/// wants_sample(); else it is not looked at. It settles what the spec leaves open: dtype and shape
/// of arrays, and whether bytes are a number written as text or plain elements.
Result<std::unique_ptr<FieldDecoder>> make_decoder(const FieldSpec& spec, const FieldView& seen);

/// Views of the field: FieldKind::own, bytes, text.
std::unique_ptr<FieldDecoder> make_view_decoder(FieldKind kind);
/// One number for each sample: FieldKind::int64, float64, and numbers out of JSON.
std::unique_ptr<FieldDecoder> make_number_decoder(const FieldSpec& spec);
/// Text out of JSON.
std::unique_ptr<FieldDecoder> make_json_text_decoder(const FieldSpec& spec);
/// FieldKind::array, ragged, pad.
Result<std::unique_ptr<FieldDecoder>> make_array_decoder(const FieldSpec& spec,
                                                         const FieldView& seen);

/// Whether a field, of a column to which no dimensions were given, is a number written as text.
/// Some numbers could be plain elements too, "1990" an int32. Text it is then, always: the tars
/// that pack and ingest write have their numbers so. A number of several bytes never is an element
/// just because its neighbour in the first sample is some other word.
Result<bool> is_number_text(const FieldView& field, Dtype dtype);
/// Whether a column of this dtype reads the field as plain elements: as bytes in memory.
bool is_plain_elements(const FieldSpec& spec, const FieldView& seen);

/// `bytes` if they lie in the record that is kept with the batch, else a copy of them that is.
std::span<const std::byte> lasting_bytes(std::span<const std::byte> bytes,
                                         std::span<const std::byte> record, SpareMemory& spare);
/// The same for a whole field but its name, which is left out.
FieldView lasting_field(const FieldView& field, std::span<const std::byte> record,
                        SpareMemory& spare);

}  // namespace stoker::internal
