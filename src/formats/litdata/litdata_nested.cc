#include "formats/litdata/litdata_nested.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "formats/arrays/offset_table.h"
#include "formats/json/json.h"
#include "formats/utf8.h"

namespace stoker {
namespace {

constexpr int kDepthMax = 64;
constexpr std::size_t kRatioMax = 100;
constexpr std::size_t kTextFreeBytes = std::size_t{64} << 10;

enum class Tag : std::uint8_t {
  json,
  strings,
  integers,
  floats,
  bools,
  dict,
  records,
  string,
  integer,
  real,
  boolean,
  null,
};

/// Tags of values inside records: 0x10 to 0x14.
constexpr Tag kRecordTags[] = {Tag::null, Tag::string, Tag::integer, Tag::real, Tag::boolean};

class Translator {
 public:
  explicit Translator(std::span<const std::byte> value)
      : value_(value), text_bytes_max_(kTextFreeBytes + kRatioMax * value.size()) {}

  Result<std::string> translate() {
    STOKER_TRY(translate_value(0));
    if (at_ != value_.size()) return corrupt("bytes are left after the value");
    return std::move(text_);
  }

 private:
  Status corrupt(std::string_view reason) const {
    return {Code::corrupt, fmt::format("byte {} of the nested value: {}", at_, reason)};
  }

  template <typename Number>
  Status take(Number& number) {
    if (value_.size() - at_ < sizeof number) return corrupt("ends inside a number");
    number = load_number<Number>(value_, at_);
    at_ += sizeof number;
    return {};
  }

  Status take_text(std::string_view& text) {
    std::uint32_t size = 0;
    STOKER_TRY(take(size));
    if (value_.size() - at_ < size) return corrupt("a text is longer than the value");
    text = {reinterpret_cast<const char*>(value_.data()) + at_, size};
    at_ += size;
    return {};
  }

  Status put(std::string_view piece) {
    if (text_.size() + piece.size() > text_bytes_max_) {
      return corrupt(fmt::format("becomes more than {} bytes of text", text_bytes_max_));
    }
    text_ += piece;
    return {};
  }

  Status put_quoted(std::string_view text) {
    if (text.size() > text_bytes_max_) return corrupt("a text is too long");
    if (!is_utf8(text)) return corrupt("a text is not UTF-8");
    return put(quote_json(text));
  }

  Status put_float(double number) {
    if (std::isnan(number)) return put("NaN");
    if (std::isinf(number)) return put(number > 0 ? "Infinity" : "-Infinity");
    char digits[32];
    const auto end = std::to_chars(std::begin(digits), std::end(digits), number).ptr;
    const std::string_view text(digits, static_cast<std::size_t>(end - digits));
    STOKER_TRY(put(text));
    return text.find_first_of(".e") == std::string_view::npos ? put(".0") : Status();
  }

  Status translate_scalar(Tag tag) {
    switch (tag) {
      case Tag::string: {
        std::string_view text;
        STOKER_TRY(take_text(text));
        return put_quoted(text);
      }
      case Tag::integer: {
        std::int64_t number = 0;
        STOKER_TRY(take(number));
        return put(fmt::to_string(number));
      }
      case Tag::real: {
        double number = 0;
        STOKER_TRY(take(number));
        return put_float(number);
      }
      case Tag::boolean: {
        std::uint8_t number = 0;
        STOKER_TRY(take(number));
        return put(number != 0 ? "true" : "false");
      }
      default: return put("null");
    }
  }

  /// Translates n values of one kind without tags.
  Status translate_list(Tag element) {
    std::uint32_t count = 0;
    STOKER_TRY(take(count));
    STOKER_TRY(put("["));
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i > 0) STOKER_TRY(put(","));
      STOKER_TRY(translate_scalar(element));
    }
    return put("]");
  }

  Status translate_dict(int depth) {
    std::uint32_t count = 0;
    STOKER_TRY(take(count));
    STOKER_TRY(put("{"));
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i > 0) STOKER_TRY(put(","));
      std::string_view key;
      STOKER_TRY(take_text(key));
      STOKER_TRY(put_quoted(key));
      STOKER_TRY(put(":"));
      STOKER_TRY(translate_value(depth + 1));
    }
    return put("}");
  }

  Status translate_record(const std::vector<std::string_view>& keys) {
    STOKER_TRY(put("{"));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i > 0) STOKER_TRY(put(","));
      STOKER_TRY(put_quoted(keys[i]));
      STOKER_TRY(put(":"));
      std::uint8_t tag = 0;
      STOKER_TRY(take(tag));
      if (tag < 0x10 || tag >= 0x10 + std::size(kRecordTags)) {
        return corrupt(fmt::format("tag {} is unknown in a record", tag));
      }
      STOKER_TRY(translate_scalar(kRecordTags[tag - 0x10]));
    }
    return put("}");
  }

  Status translate_records() {
    std::uint32_t count = 0;
    std::uint32_t key_count = 0;
    STOKER_TRY(take(count));
    STOKER_TRY(take(key_count));
    if (key_count == 0 && count > 0) return corrupt("records without keys");
    std::vector<std::string_view> keys;
    for (std::uint32_t i = 0; i < key_count; ++i) STOKER_TRY(take_text(keys.emplace_back()));
    STOKER_TRY(put("["));
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i > 0) STOKER_TRY(put(","));
      STOKER_TRY(translate_record(keys));
    }
    return put("]");
  }

  Status translate_json() {
    std::string_view text;
    STOKER_TRY(take_text(text));
    return put(text);
  }

  Status translate_value(int depth) {
    if (depth > kDepthMax) return corrupt(fmt::format("nested more than {} deep", kDepthMax));
    std::uint8_t tag = 0;
    STOKER_TRY(take(tag));
    if (tag > static_cast<std::uint8_t>(Tag::null)) {
      return corrupt(fmt::format("tag {} is unknown", tag));
    }
    switch (static_cast<Tag>(tag)) {
      case Tag::json: return translate_json();
      case Tag::strings: return translate_list(Tag::string);
      case Tag::integers: return translate_list(Tag::integer);
      case Tag::floats: return translate_list(Tag::real);
      case Tag::bools: return translate_list(Tag::boolean);
      case Tag::dict: return translate_dict(depth);
      case Tag::records: return translate_records();
      default: return translate_scalar(static_cast<Tag>(tag));
    }
  }

  std::span<const std::byte> value_;
  std::size_t at_ = 0;
  std::size_t text_bytes_max_;
  std::string text_;
};

}  // namespace

Status decode_litdata_json(std::span<const std::byte> value, SampleView& storage,
                           FieldView& field) {
  field.type = FieldType::json;
  if (value.empty()) return {Code::corrupt, "the nested value is empty"};
  if (std::to_integer<unsigned>(value.front()) > 0x20) {
    field.bytes = value;
    return {};
  }
  STOKER_ASSIGN(const std::string text, Translator(value).translate());
  const auto bytes = std::as_bytes(std::span(text));
  field.bytes = storage.storage.emplace_back(bytes.begin(), bytes.end());
  return {};
}

}  // namespace stoker
