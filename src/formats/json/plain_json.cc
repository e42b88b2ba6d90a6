#include "formats/json/plain_json.h"

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "formats/utf8.h"

namespace stoker {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

void append_utf8(std::string& out, std::uint32_t code) {
  const auto append = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    append(code);
    return;
  }
  if (code < 0x800) {
    append(0xC0 | code >> 6);
  } else if (code < 0x10000) {
    append(0xE0 | code >> 12);
    append(0x80 | (code >> 6 & 0x3F));
  } else {
    append(0xF0 | code >> 18);
    append(0x80 | (code >> 12 & 0x3F));
    append(0x80 | (code >> 6 & 0x3F));
  }
  append(0x80 | (code & 0x3F));
}

/// Reads values one after the other. Each method returns false for what it does not read.
class PlainReader {
 public:
  PlainReader(std::string_view text, const StrictJsonLimits& limits, const ElementTakers& takers)
      : limits_(limits), takers_(takers), at_(text.data()), end_(text.data() + text.size()) {}

  bool read_all(PlainJson& out) {
    skip_spaces();
    if (!read_value(out.document, 0)) return false;
    out.members = std::move(members_);
    skip_spaces();
    return at_ == end_;
  }

 private:
  /// Returns the next character; a zero byte, which is in no valid text, at the end.
  char next() const { return at_ == end_ ? '\0' : *at_; }

  bool take(char expected) {
    if (next() != expected) return false;
    ++at_;
    return true;
  }

  void skip_spaces() {
    while (next() == ' ' || next() == '\n' || next() == '\t' || next() == '\r') ++at_;
  }

  bool skip_digits() {
    if (!is_digit(next())) return false;
    while (is_digit(next())) ++at_;
    return true;
  }

  /// `depth`: how many arrays and objects the value is in.
  bool read_value(Json& out, std::size_t depth) {
    if (++value_count_ > limits_.value_count_max) return false;
    switch (next()) {
      case '{': return depth < limits_.depth_max && read_object(out, depth + 1);
      case '[': return depth < limits_.depth_max && read_array(out, depth + 1);
      case '"': return read_text(out);
      case 'n': return read_word("null", nullptr, out);
      case 't': return read_word("true", true, out);
      case 'f': return read_word("false", false, out);
      case 'N':
        return limits_.accepts_nonfinite &&
               read_word("NaN", std::numeric_limits<double>::quiet_NaN(), out);
      case 'I': return limits_.accepts_nonfinite && read_word("Infinity", kInfinity, out);
      default: return read_number(out);
    }
  }

  bool read_object(Json& out, std::size_t depth) {
    out = Json::object();
    ++at_;
    skip_spaces();
    if (take('}')) return true;
    do {
      skip_spaces();
      std::string name;
      if (!read_string(name)) return false;
      skip_spaces();
      if (!take(':')) return false;
      skip_spaces();
      if (depth == 1) {
        if (!read_member(name, out)) return false;
      } else {
        Json* const member = out.try_add(std::move(name));
        if (member == nullptr || !read_value(*member, depth)) return false;
      }
      skip_spaces();
    } while (take(','));
    return take('}');
  }

  /// Reads a member of the document itself.
  bool read_member(const std::string& name, Json& document) {
    const char* const begin = at_;
    Json* const member = document.try_add(name);
    if (member == nullptr) return false;
    const auto taker = takers_.find(name);
    const bool is_taken = taker != takers_.end() && next() == '[';
    if (!(is_taken ? take_array(*member, taker->second) : read_value(*member, 1))) return false;
    members_.emplace_back(name, std::string_view(begin, at_));
    return true;
  }

  bool read_array(Json& out, std::size_t depth) {
    out = Json::array();
    return read_elements([&] { return read_value(out.push_back(nullptr), depth); });
  }

  /// Reads an array in the document itself, and gives its elements away.
  bool take_array(Json& out, const ElementTaker& taker) {
    constexpr std::size_t kDepth = 2;
    if (++value_count_ > limits_.value_count_max || kDepth > limits_.depth_max) return false;
    out = Json::array();
    std::string_view before;  // the text of an array or object, which shows its end
    std::size_t before_count = 0;
    return read_elements([&] {
      if (!before.empty() && std::string_view(at_, end_).starts_with(before)) {
        at_ += before.size();
        value_count_ += before_count;
        return value_count_ <= limits_.value_count_max && taker(nullptr, before);
      }
      const char* const begin = at_;
      const std::size_t count = value_count_;
      Json element;
      if (!read_value(element, kDepth)) return false;
      const std::string_view text(begin, at_);
      before = element.is_structured() ? text : std::string_view();
      before_count = value_count_ - count;
      return taker(&element, text);
    });
  }

  template <typename ReadElement>
  bool read_elements(const ReadElement& read_element) {
    ++at_;
    skip_spaces();
    if (take(']')) return true;
    do {
      skip_spaces();
      if (!read_element()) return false;
      skip_spaces();
    } while (take(','));
    return take(']');
  }

  bool read_word(std::string_view word, Json value, Json& out) {
    if (!std::string_view(at_, end_).starts_with(word)) return false;
    at_ += word.size();
    out = std::move(value);
    return true;
  }

  bool read_text(Json& out) {
    std::string text;
    if (!read_string(text)) return false;
    out = Json(std::move(text));
    return true;
  }

  bool read_string(std::string& out) {
    if (!take('"')) return false;
    for (;;) {
      if (!read_piece(out)) return false;
      if (take('"')) return true;
      if (!take('\\') || !read_escape(out)) return false;
    }
  }

  /// Reads up to the next quote, backslash or control character.
  bool read_piece(std::string& out) {
    const char* const begin = at_;
    unsigned char all = 0;
    for (; at_ != end_; ++at_) {
      const auto byte = static_cast<unsigned char>(*at_);
      if (byte == '"' || byte == '\\' || byte < 0x20) break;
      all |= byte;
    }
    const std::string_view piece(begin, at_);
    out += piece;
    return all < 0x80 || is_utf8(piece);
  }

  bool read_escape(std::string& out) {
    if (next() == 'u') return read_code(out);
    constexpr std::string_view kEscapes = "\"\\/bfnrt";
    constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
    const std::size_t found = kEscapes.find(next());
    if (found == std::string_view::npos) return false;
    out += kMeanings[found];
    ++at_;
    return true;
  }

  /// Reads one escape with four digits, or the two of a surrogate pair, after the backslash.
  bool read_code(std::string& out) {
    const std::optional<std::uint32_t> first = take_unit();
    if (!first) return false;
    std::uint32_t code = *first;
    if (code >= 0xD800 && code < 0xE000) {
      if (code >= 0xDC00 || !take('\\')) return false;
      const std::optional<std::uint32_t> second = take_unit();
      if (!second || *second < 0xDC00 || *second >= 0xE000) return false;
      code = 0x10000 + ((code - 0xD800) << 10) + (*second - 0xDC00);
    }
    append_utf8(out, code);
    return true;
  }

  std::optional<std::uint32_t> take_unit() {
    constexpr int kDigits = 4;
    constexpr int kHexadecimal = 16;
    if (!take('u') || end_ - at_ < kDigits) return std::nullopt;
    std::uint32_t unit = 0;
    const auto [stop, error] = std::from_chars(at_, at_ + kDigits, unit, kHexadecimal);
    if (error != std::errc() || stop != at_ + kDigits) return std::nullopt;
    at_ = stop;
    return unit;
  }

  bool read_number(Json& out) {
    const char* const begin = at_;
    const bool is_negative = take('-');
    if (is_negative && limits_.accepts_nonfinite && next() == 'I')
      return read_word("Infinity", -kInfinity, out);
    if (!take('0') && !skip_digits()) return false;
    bool is_float = false;
    if (take('.')) {
      is_float = true;
      if (!skip_digits()) return false;
    }
    if (take('e') || take('E')) {
      is_float = true;
      if (!take('+')) take('-');
      if (!skip_digits()) return false;
    }
    if (is_float) return convert<double>(begin, out);
    const bool fits =
        is_negative ? convert<std::int64_t>(begin, out) : convert<std::uint64_t>(begin, out);
    // As parse_strict_json() does, which cannot be asked if the text has a NaN as well.
    return fits || (limits_.accepts_nonfinite && convert<double>(begin, out));
  }

  /// Declines numbers that do not fit the type.
  template <typename Number>
  bool convert(const char* begin, Json& out) const {
    Number value = 0;
    const auto [stop, error] = std::from_chars(begin, at_, value);
    if (error != std::errc() || stop != at_) return false;
    out = value;
    return true;
  }

  const StrictJsonLimits& limits_;
  const ElementTakers& takers_;
  const char* at_;
  const char* const end_;
  std::size_t value_count_ = 0;
  JsonMemberTexts members_;
};

}  // namespace

std::optional<PlainJson> try_parse_json(std::string_view text, const StrictJsonLimits& limits,
                                        const ElementTakers& takers) {
  PlainJson read;
  if (text.size() > limits.text_bytes_max || !PlainReader(text, limits, takers).read_all(read))
    return std::nullopt;
  return read;
}

}  // namespace stoker
