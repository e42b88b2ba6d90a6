/// \file
/// The pieces of a JSON text as they were written. A parsed document forgets the order of members
/// and how numbers were spelled; what is passed on unread must forget neither.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace stoker {

/// The members of an object, in order: name, and the text of the value without the space around
/// it. `object` must be the text of an object that parse_strict_json() has accepted.
std::vector<std::pair<std::string, std::string_view>> json_member_texts(std::string_view object);

/// The same of an array's elements.
std::vector<std::string_view> json_element_texts(std::string_view array);

}  // namespace stoker
