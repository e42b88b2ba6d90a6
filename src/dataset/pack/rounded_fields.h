/// \file
/// Real numbers that a format stores with fewer bits than they had: float64 as float32 in TFRecord.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "dataset/pack/pack.h"
#include "stoker/fields.h"
#include "stoker/status.h"

namespace stoker {

/// Names of fields.
using RoundedFields = std::set<std::string, std::less<>>;

/// Whether a field that ShardFormat::fit has converted from `given` to `stored` has lost bits.
bool is_rounded(const FieldView& given, const FieldView& stored);

/// Returns a sentence for each field of a report that has lost bits, with what to do.
std::vector<std::string> remarks_on(const PackReport& report);

}  // namespace stoker
