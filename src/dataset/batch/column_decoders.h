/// \file
/// The decoders of the kinds in stoker/fields.h.
#pragma once

#include <memory>
#include <optional>
#include <span>

#include "dataset/batch/column_decoder.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Whether the decoder depends on a sample of the dataset.
bool wants_sample(const FieldSpec& spec) noexcept;

/// Makes the decoder of a column. `seen`: the field of the dataset's first readable sample if
/// wants_sample(), otherwise ignored. It determines what the spec does not specify: dtype and shape
/// of arrays, and whether bytes are a number as text or plain elements.
Result<std::unique_ptr<ColumnDecoder>> make_decoder(const FieldSpec& spec, const FieldView& seen);

/// Views of the field: FieldKind::own, bytes, text.
std::unique_ptr<ColumnDecoder> make_view_decoder(FieldKind kind);
/// One number per sample: FieldKind::int64, float64, boolean, and numbers in JSON.
std::unique_ptr<ColumnDecoder> make_number_decoder(const FieldSpec& spec);
/// Text in JSON.
std::unique_ptr<ColumnDecoder> make_json_text_decoder(const FieldSpec& spec);
/// FieldKind::array, ragged, pad.
Result<std::unique_ptr<ColumnDecoder>> make_array_decoder(const FieldSpec& spec,
                                                          const FieldView& seen);

/// FieldKind::decoded.
std::unique_ptr<ColumnDecoder> make_program_decoder(const FieldDecoder& decoder);

/// Whether a field is a number as text, in a column without given dimensions. Some bytes could be
/// either: "1990" is also one int32. They always count as text, because that is how `pack` and
/// `ingest` write numbers to tars. Printable text that is not a number is `invalid_argument`,
/// unless elements have one byte: otherwise a word in the first sample would make the numbers of
/// later samples plain elements.
Result<bool> is_number_text(const FieldView& field, Dtype dtype);
/// Whether a column of this spec reads the field as plain elements, that is as bytes in memory.
bool is_plain_elements(const FieldSpec& spec, const FieldView& seen);

/// Returns `bytes` if they are inside the record, which is kept with the batch, otherwise a copy in
/// `spare`.
std::span<const std::byte> lasting_bytes(std::span<const std::byte> bytes,
                                         std::span<const std::byte> record, SpareMemory& spare);
/// The same for a whole field, without its name.
FieldView lasting_field(const FieldView& field, std::span<const std::byte> record,
                        SpareMemory& spare);

}  // namespace stoker::internal
