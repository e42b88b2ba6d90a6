/// \file
/// The parts of a JSON text as they were written. A parsed document loses the order of members and
/// the spelling of numbers; text that is passed on unchanged must keep both.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoker {

using JsonMemberTexts = std::vector<std::pair<std::string, std::string_view>>;

/// Returns the members of an object in order: the name, and the text of the value without
/// surrounding spaces. `object` must be the text of an object that parse_strict_json() has
/// accepted.
JsonMemberTexts json_member_texts(std::string_view object);

/// Returns the texts of an array's elements in the same way.
std::vector<std::string_view> json_element_texts(std::string_view array);

}  // namespace stoker
