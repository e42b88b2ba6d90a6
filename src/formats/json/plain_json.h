#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "formats/json/json_text.h"
#include "formats/json/strict_json.h"

namespace stoker {

/// Gets the elements of an array one by one, with their texts, and may move them; null for one that
/// is written as the one before, as the trees of ranks often are. Returns false to decline the
/// text.
using ElementTaker = std::function<bool(Json*, std::string_view)>;
/// By the name of a member of the document.
using ElementTakers = std::map<std::string, ElementTaker, std::less<>>;

struct PlainJson {
  Json document;
  JsonMemberTexts members;  ///< Of the document, as json_member_texts() returns them.
};

/// Parses most valid texts, several times as fast as the library behind parse_strict_json().
/// Returns nothing for every text that parse_strict_json() refuses, and for some that it accepts,
/// such as 1e-999: it then decides, and says what is wrong. Recursive, up to `limits.depth_max`.
///
/// A member that has a taker, and is an array, is empty in the result: a long array need not be in
/// memory as a whole. If the text is declined, takers may have got some elements.
std::optional<PlainJson> try_parse_json(std::string_view text, const StrictJsonLimits& limits,
                                        const ElementTakers& takers = {});

}  // namespace stoker
