#include "store/text/xml.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <utility>

namespace stoker {
namespace {

constexpr std::string_view kSpaces = " \t\r\n";

bool is_space(char c) {
  return kSpaces.find(c) != std::string_view::npos;
}

bool is_name_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == ':';
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto tail = [&](int shift) { out += static_cast<char>(0x80 | ((code >> shift) & 0x3F)); };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | (code >> 6));
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | (code >> 12));
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xF0 | (code >> 18));
    tail(12);
    tail(6);
    tail(0);
  }
}

/// Parses one document.
///
/// Thread safety: none.
class XmlParser {
 public:
  XmlParser(std::string_view text, const XmlLimits& limits) : text_(text), limits_(limits) {}

  Result<XmlElement> document() {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
    skip_spaces();
    if (rest().starts_with("<?xml") && rest().size() > 5 && is_space(rest()[5]))
      STOKER_TRY(skip_past("?>"));
    STOKER_TRY(skip_blank());
    XmlElement root;
    STOKER_TRY(element(root, 1));
    STOKER_TRY(skip_blank());
    if (at_ != text_.size()) return corrupt("text after the document");
    return root;
  }

 private:
  std::string_view rest() const { return text_.substr(at_); }
  Status corrupt(std::string_view why) const {
    return {Code::corrupt, "XML, byte " + std::to_string(at_) + ": " + std::string(why)};
  }
  void skip_spaces() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  Status skip_past(std::string_view end) {
    const std::size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) return corrupt("no " + std::string(end));
    at_ = found + end.size();
    return {};
  }
  /// Skips spaces and comments.
  Status skip_blank() {
    for (skip_spaces(); rest().starts_with("<!--"); skip_spaces()) STOKER_TRY(skip_past("-->"));
    return {};
  }

  Status name(std::string_view& out) {
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name_char(text_[at_])) ++at_;
    if (at_ == start) return corrupt("a name is missing");
    out = text_.substr(start, at_ - start);
    return {};
  }

  /// Reads from "<" to the end of the element. Recursion is limited by depth_max.
  Status element(XmlElement& out, std::size_t depth) {
    if (depth > limits_.depth_max) return corrupt("elements are nested too deeply");
    if (++element_count_ > limits_.element_count_max) return corrupt("too many elements");
    if (!rest().starts_with("<")) return corrupt("an element is missing");
    ++at_;
    std::string_view full_name;
    STOKER_TRY(name(full_name));
    out.name = full_name.substr(full_name.rfind(':') + 1);
    bool is_empty = false;
    STOKER_TRY(attributes(is_empty));
    return is_empty ? Status() : content(out, full_name, depth);
  }

  Status attributes(bool& is_empty) {
    for (;;) {
      skip_spaces();
      if (rest().starts_with("/>")) {
        at_ += 2;
        is_empty = true;
        return {};
      }
      if (rest().starts_with(">")) {
        ++at_;
        return {};
      }
      std::string_view ignored;
      STOKER_TRY(name(ignored));
      skip_spaces();
      if (!rest().starts_with("=")) return corrupt("an attribute without a value");
      ++at_;
      skip_spaces();
      if (rest().empty() || (rest()[0] != '"' && rest()[0] != '\''))
        return corrupt("an attribute without quotes");
      const char quote = text_[at_++];
      STOKER_TRY(skip_past({&quote, 1}));
    }
  }

  Status content(XmlElement& out, std::string_view full_name, std::size_t depth) {
    for (;;) {
      if (at_ == text_.size()) return corrupt("the element is not closed");
      if (rest().starts_with("</")) {
        at_ += 2;
        if (!rest().starts_with(full_name)) return corrupt("another element is closed");
        at_ += full_name.size();
        skip_spaces();
        if (!rest().starts_with(">")) return corrupt("another element is closed");
        ++at_;
        if (!out.children.empty()) out.text.clear();
        return {};
      }
      if (rest().starts_with("<!--")) {
        STOKER_TRY(skip_past("-->"));
      } else if (text_[at_] == '<') {
        STOKER_TRY(element(out.children.emplace_back(), depth + 1));
      } else if (text_[at_] == '&') {
        STOKER_TRY(entity(out.text));
      } else {
        const std::size_t end = std::min(text_.find_first_of("<&", at_), text_.size());
        if (text_.substr(at_, end - at_).find('\0') != std::string_view::npos)
          return corrupt("a zero byte");
        out.text += text_.substr(at_, end - at_);
        at_ = end;
      }
    }
  }

  Status entity(std::string& out) {
    constexpr std::size_t kLengthMax = 12;
    const std::size_t end = rest().substr(0, kLengthMax).find(';');
    if (end == std::string_view::npos) return corrupt("an entity without an end");
    const std::string_view which = rest().substr(1, end - 1);
    static constexpr std::pair<std::string_view, char> kNamed[] = {
        {"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    const auto* const named =
        std::ranges::find(kNamed, which, &std::pair<std::string_view, char>::first);
    if (named != std::end(kNamed)) {
      out += named->second;
    } else if (which.starts_with("#")) {
      const bool is_hex = which.starts_with("#x");
      const std::string_view digits = which.substr(is_hex ? 2 : 1);
      std::uint32_t code = 0;
      const auto [stop, error] =
          std::from_chars(digits.data(), digits.data() + digits.size(), code, is_hex ? 16 : 10);
      const bool is_whole = !digits.empty() && stop == digits.data() + digits.size();
      if (error != std::errc() || !is_whole || code == 0 || code > 0x10FFFF ||
          (code >= 0xD800 && code <= 0xDFFF))
        return corrupt("no such character");
      append_utf8(out, code);
    } else {
      return corrupt("an unknown entity");
    }
    at_ += end + 1;
    return {};
  }

  const std::string_view text_;
  const XmlLimits limits_;
  std::size_t at_ = 0;
  std::size_t element_count_ = 0;
};

}  // namespace

const XmlElement* XmlElement::child(std::string_view wanted) const noexcept {
  const auto found = std::ranges::find(children, wanted, &XmlElement::name);
  return found == children.end() ? nullptr : &*found;
}

std::string_view XmlElement::text_of(std::string_view wanted) const noexcept {
  const XmlElement* const found = child(wanted);
  return found == nullptr ? std::string_view() : std::string_view(found->text);
}

Result<XmlElement> parse_xml(std::string_view text, const XmlLimits& limits) {
  if (text.size() > limits.text_bytes_max)
    return Status(Code::corrupt, "XML: " + std::to_string(text.size()) + " bytes are too many");
  return XmlParser(text, limits).document();
}

}  // namespace stoker
