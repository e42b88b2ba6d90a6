/// \file
/// What a format does not store of some fields: in TFRecord, the last bits of float64 numbers, and
/// the shape of arrays.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "stoker/fields.h"

namespace stoker {

/// Names of fields, by what was lost of at least one of their values.
///
/// Thread safety: that of a container.
struct FieldLosses {
  using Names = std::set<std::string, std::less<>>;

  Names rounded = {};    ///< Real numbers have fewer bits than they had.
  Names flattened = {};  ///< Arrays of several dimensions became lists.

  bool operator==(const FieldLosses&) const = default;

  /// Adds what was lost of `given` when ShardFormat::fit converted it to `stored`.
  void add(const FieldView& given, const FieldView& stored);

  void add(const FieldLosses& other);
};

/// Returns a sentence for each field that has lost something, with what to do.
std::vector<std::string> remarks_on(const FieldLosses& losses);

}  // namespace stoker
