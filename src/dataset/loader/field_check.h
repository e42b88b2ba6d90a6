#pragma once

#include <span>

#include "dataset/loader/loader_part.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker {

/// Checks that samples have these fields, to report a misspelt name before the first batch. Reads
/// the first sample of each part, and the last one if the first lacks a field: a single sample may
/// be damaged, which its batch reports. `invalid_argument` if both lack it, with the names that
/// there are. Parts of tokens are not checked.
Status check_fields_exist(std::span<const LoaderPart> parts, std::span<const FieldSpec> fields);

}  // namespace stoker
