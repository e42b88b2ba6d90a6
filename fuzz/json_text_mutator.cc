#include "fuzz/json_text_mutator.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace stoker {
namespace {

/// Values of all types: limits of numbers, odd texts and the words of checkpoints.
constexpr std::string_view kValues =
    R"(0 1 2 -1 10 4096 65536 4294967295 4294967296 9007199254740993 9223372036854775807 )"
    R"(9223372036854775808 -9223372036854775808 18446744073709551615 18446744073709551616 )"
    R"(0.5 -0.0 1e308 1e-320 1E+2 null true false [] {} [[]] [0,1] ["a","b"] {"a":1} "" "a" )"
    R"(".." "/" "nan" "-inf" "\u00e9" "\n\"" "\ud83d\ude00" "manifest.json" "latest" "state" )"
    R"("model" "!tensor" "!array" "!scalar" "!slice" "!tuple" "!dict" "!float" "!torch" "F64" )"
    R"("F32" "BF16" "I64" "U8" "BOOL" "F4" "<c16" "|V16" "line" )"
    R"("places" "duplicates")";

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    words.push_back(text.substr(0, text.find(' ')));
    text.remove_prefix(std::min(words.back().size() + 1, text.size()));
  }
  return words;
}

bool is_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/// An element or a member: a value, after its name if it has one.
struct Item {
  std::size_t begin = 0;
  std::size_t value = 0;
  std::size_t end = 0;

  bool has_name() const { return begin != value; }
};

/// Finds the values of a text in one pass, or something like them if it is not JSON.
class ItemFinder {
 public:
  const std::vector<Item>& find(std::string_view text) {
    text_ = text;
    found_.clear();
    open_.clear();
    name_.reset();
    for (std::size_t at = 0; at < text.size();) at = take(at);
    for (const std::size_t open : open_) found_[open].end = text.size();
    return found_;
  }

 private:
  /// Takes one token and returns its end.
  std::size_t take(std::size_t at) {
    const char c = text_[at];
    if (is_space(c) || c == ',' || c == ':') return at + 1;
    if (c == '{' || c == '[') {
      open_.push_back(found_.size());
      return add(at, at + 1);
    }
    if (c == '}' || c == ']') {
      if (!open_.empty()) {
        found_[open_.back()].end = at + 1;
        open_.pop_back();
      }
      return at + 1;
    }
    const std::size_t end = c == '"' ? end_of_string(at) : end_of_word(at);
    std::size_t next = end;
    while (next < text_.size() && is_space(text_[next])) ++next;
    if (next == text_.size() || text_[next] != ':') return add(at, end);
    name_ = at;
    return next + 1;
  }

  std::size_t add(std::size_t at, std::size_t end) {
    found_.push_back(
        {.begin = std::exchange(name_, std::nullopt).value_or(at), .value = at, .end = end});
    return end;
  }

  std::size_t end_of_string(std::size_t at) const {
    for (++at; at < text_.size() && text_[at] != '"'; ++at)
      if (text_[at] == '\\') ++at;
    return std::min(at + 1, text_.size());
  }

  std::size_t end_of_word(std::size_t at) const {
    return std::min(text_.find_first_of(" \n\t\r,:{}[]\"", at + 1), text_.size());
  }

  std::string_view text_;
  std::vector<Item> found_;
  std::vector<std::size_t> open_;  // arrays and objects that have no end yet
  std::optional<std::size_t> name_;
};

class TextMutator {
 public:
  std::string_view change(std::string_view text, std::uint32_t seed) {
    text_ = text;
    random_.seed(seed);
    items_ = finder_.find(text);
    if (items_.empty()) return "";
    const Item& item = any();
    switch (below(8)) {
      case 0: replace(item.value, item.end, {value_of(any())}); break;
      case 1: remove(item); break;
      case 2: insert_before(item, any()); break;
      case 3: wrap(item); break;
      case 4: change_digit(item); break;
      default: replace(item.value, item.end, {values_[below(values_.size())]}); break;
    }
    return out_;
  }

 private:
  std::size_t below(std::size_t count) { return random_() % count; }
  const Item& any() { return items_[below(items_.size())]; }
  std::string_view piece(std::size_t begin, std::size_t end) const {
    return text_.substr(begin, end - begin);
  }
  std::string_view value_of(const Item& item) const { return piece(item.value, item.end); }

  /// Makes the result: the text with `pieces` in place of what is between `begin` and `end`.
  void replace(std::size_t begin, std::size_t end, std::initializer_list<std::string_view> pieces) {
    out_ = text_.substr(0, begin);
    for (const std::string_view piece : pieces) out_ += piece;
    out_ += text_.substr(end);
  }

  /// Removes an item and the comma after it; of the last one, the comma before it.
  void remove(const Item& item) {
    std::size_t begin = item.begin;
    std::size_t end = item.end;
    while (end < text_.size() && is_space(text_[end])) ++end;
    if (end < text_.size() && text_[end] == ',') return replace(begin, end + 1, {});
    while (begin > 0 && is_space(text_[begin - 1])) --begin;
    if (begin > 0 && text_[begin - 1] == ',') --begin;
    replace(begin, item.end, {});
  }

  /// Inserts a copy of `item`; a copy without a name gets that of its new neighbour, which is then
  /// named twice.
  void insert_before(const Item& place, const Item& item) {
    const bool is_named = place.has_name() && item.has_name();
    const std::string_view name =
        is_named ? piece(item.begin, item.value) : piece(place.begin, place.value);
    replace(place.begin, place.begin, {name, value_of(item), ","});
  }

  void wrap(const Item& item) {
    if (below(2) == 0)
      replace(item.value, item.end, {"[", value_of(item), "]"});
    else
      replace(item.value, item.end, {R"({"a":)", value_of(item), "}"});
  }

  /// Changes a digit of a number or a text; without digits, the value.
  void change_digit(const Item& item) {
    constexpr std::string_view kDigits = "123456789";
    std::size_t at = item.value + below(item.end - item.value);
    while (at < item.end && !is_digit(text_[at])) ++at;
    const std::string_view digit = kDigits.substr(below(kDigits.size()), 1);
    if (at == item.end)
      replace(item.value, item.end, {digit});
    else
      replace(at, at + 1, {digit});
  }

  const std::vector<std::string_view> values_ = words_of(kValues);
  std::string_view text_;
  std::minstd_rand random_;
  ItemFinder finder_;
  std::span<const Item> items_;
  std::string out_;
};

}  // namespace

std::string_view mutate_json_text(std::string_view text, std::uint32_t seed) {
  static TextMutator mutator;
  return mutator.change(text, seed);
}

std::size_t mutate_json_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                              unsigned seed, unsigned of_bytes) {
  constexpr unsigned kSeeds = 16;
  if (seed % kSeeds < of_bytes) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  return replace_input(data, size, max_size, mutate_json_text(text, seed / kSeeds));
}

std::size_t replace_input(std::uint8_t* data, std::size_t size, std::size_t max_size,
                          std::string_view text) {
  if (text.empty() || text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace stoker
