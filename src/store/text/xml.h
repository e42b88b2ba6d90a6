/// \file
/// The XML of the answers of S3: elements and text. Untrusted, and so read strictly, under limits.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "stoker/status.h"

namespace stoker {

struct XmlLimits {
  std::size_t text_bytes_max = std::size_t{16} << 20;
  std::size_t depth_max = 16;
  std::size_t element_count_max = 200'000;
};

/// An element: its name without a namespace prefix, and what is in it.
struct XmlElement {
  std::string name;
  std::string text;  ///< All text directly in it, entities replaced; empty if it has children.
  std::vector<XmlElement> children;

  /// Returns the first child of that name, or null.
  const XmlElement* child(std::string_view wanted) const noexcept;
  /// Returns the text of the first child of that name, or "".
  std::string_view text_of(std::string_view wanted) const noexcept;
};

/// Returns the outermost element. `corrupt`, with the byte offset, for anything but elements, text,
/// the five named entities, character references, comments and an XML declaration: no document
/// types, no CDATA sections, no other processing instructions. Attributes are skipped.
Result<XmlElement> parse_xml(std::string_view text, const XmlLimits& limits = {});

}  // namespace stoker
