/// \file
/// What a format does not store of some fields: in TFRecord, the last bits of float64 numbers, and
/// the shape of arrays.
#pragma once

#include <string>
#include <vector>

#include "stoker/fields.h"
#include "stoker/pack.h"

namespace stoker {

/// Adds to `losses` what was lost of `given` when ShardFormat::fit converted it to `stored`.
void add_losses(FieldLosses& losses, const FieldView& given, const FieldView& stored);
void add_losses(FieldLosses& losses, const FieldLosses& others);

/// Returns a sentence for each field that has lost something, with what to do.
std::vector<std::string> remarks_on(const FieldLosses& losses);

}  // namespace stoker
