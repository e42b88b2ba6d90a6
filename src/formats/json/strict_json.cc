#include "formats/json/strict_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "formats/json/exact_json.h"
#include "formats/json/plain_json.h"

namespace stoker {
namespace {

using Parser = nlohmann::json;

/// Counts the bytes that the parser has consumed, because its event interface does not report its
/// position.
class CountingIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  CountingIterator(const char* at, std::size_t* taken) : at_(at), taken_(taken) {}

  const char& operator*() const { return *at_; }
  CountingIterator& operator++() {
    ++at_;
    ++*taken_;
    return *this;
  }
  CountingIterator operator++(int) {
    CountingIterator before = *this;
    ++*this;
    return before;
  }
  bool operator==(const CountingIterator& other) const { return at_ == other.at_; }
  bool operator!=(const CountingIterator& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  std::size_t* taken_;
};

/// Builds the document from the parser's events, and stops at the first limit that is exceeded.
class Builder final : public nlohmann::json_sax<Parser> {
 public:
  Builder(const StrictJsonLimits& limits, bool is_exact, const std::size_t& taken)
      : limits_(limits), is_exact_(is_exact), taken_(taken) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t& text) override {
    // The library reports integers that are too large for its types as floats.
    if (is_exact_ && text.find_first_of(".eE") == string_t::npos)
      return refuse(fmt::format("the integer {} does not fit 64 bits; write it as text, in quotes",
                                shortened(text)));
    return add(value);
  }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t& /*value*/) override { return refuse("binary value"); }

  bool start_object(std::size_t /*size*/) override { return open(Json::object()); }
  bool end_object() override { return close(); }
  bool start_array(std::size_t /*size*/) override { return open(Json::array()); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (open_.back()->contains(name)) {
      return refuse(fmt::format("duplicate key {}", quote_for_message(name)));
    }
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t position, const std::string& token,
                   const Parser::exception& error) override {
    error_ = fmt::format("byte {}: {}", position == 0 ? 0 : position - 1, reason(token, error));
    return false;
  }

  const std::string& error() const noexcept { return error_; }
  Json take() { return std::move(root_); }

 private:
  /// The library's text quotes the input; valid JSON that is rejected gets its own reason.
  static std::string reason(std::string_view token, const Parser::exception& error) {
    constexpr int kNumberOverflow = 406;
    if (error.id == kNumberOverflow)
      return fmt::format("the number {} is too large for a double", shortened(token));
    const std::string_view text = error.what();
    if (text.find("surrogate") != std::string_view::npos)
      return "half of a surrogate pair, which is not a character";
    if (text.find("ill-formed UTF-8") != std::string_view::npos) return "not UTF-8";
    return "not valid JSON";
  }

  static std::string shortened(std::string_view number) {
    constexpr std::size_t kShown = 32;
    return std::string(number.substr(0, kShown)) + (number.size() > kShown ? "..." : "");
  }

  Json* place(Json value) {
    if (open_.empty()) {
      root_ = std::move(value);
      return &root_;
    }
    Json& parent = *open_.back();
    if (parent.is_array()) return &parent.push_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }

  bool add(Json value) {
    if (++value_count_ > limits_.value_count_max) {
      return refuse(fmt::format("more than {} values", limits_.value_count_max));
    }
    place(std::move(value));
    return true;
  }

  bool open(Json container) {
    if (open_.size() >= limits_.depth_max) {
      return refuse(fmt::format("nested more than {} deep", limits_.depth_max));
    }
    if (++value_count_ > limits_.value_count_max) {
      return refuse(fmt::format("more than {} values", limits_.value_count_max));
    }
    // A parent grows only when its last child is complete, so these addresses stay valid.
    open_.push_back(place(std::move(container)));
    return true;
  }

  bool close() {
    open_.pop_back();
    return true;
  }

  bool refuse(std::string_view reason) {
    error_ = fmt::format("byte {}: {}", taken_ == 0 ? 0 : taken_ - 1, reason);
    return false;
  }

  const StrictJsonLimits& limits_;
  const bool is_exact_;
  const std::size_t& taken_;
  Json root_;
  std::vector<Json*> open_;
  std::string key_;
  std::string error_;
  std::size_t value_count_ = 0;
};

Result<Json> parse(std::string_view text, std::string_view what, const StrictJsonLimits& limits,
                   bool is_exact) {
  if (text.size() > limits.text_bytes_max) {
    return Status(Code::corrupt, fmt::format("{}: {} bytes of JSON, at most {} are read", what,
                                             text.size(), limits.text_bytes_max));
  }
  if (text.starts_with("\xEF\xBB\xBF")) {
    return Status(Code::corrupt, fmt::format("{}: byte 0: a byte-order mark", what));
  }
  // The library treats a zero byte as the end of the text, and would ignore the rest.
  if (const std::size_t zero = text.find('\0'); zero != std::string_view::npos) {
    return Status(Code::corrupt, fmt::format("{}: byte {}: not valid JSON", what, zero));
  }
  if (std::optional<PlainJson> plain = try_parse_json(text, limits))
    return std::move(plain->document);
  std::size_t taken = 0;
  Builder builder(limits, is_exact, taken);
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  if (!Parser::sax_parse(CountingIterator(begin, &taken), CountingIterator(end, &taken),
                         &builder)) {
    return Status(Code::corrupt, fmt::format("{}: {}", what, builder.error()));
  }
  return builder.take();
}

}  // namespace

Result<Json> parse_strict_json(std::string_view text, std::string_view what,
                               const StrictJsonLimits& limits) {
  return parse(text, what, limits, false);
}

Result<Json> parse_exact_json(std::string_view text, std::string_view what,
                              const StrictJsonLimits& limits) {
  return parse(text, what, limits, true);
}

bool is_json(std::string_view text) {
  return Parser::accept(text);
}

std::string quote_for_message(std::string_view text) {
  constexpr std::size_t kShown = 64;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kShown)) {
    if (c >= ' ' && c <= '~' && c != '"' && c != '\\') {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  quoted += text.size() > kShown ? "\"..." : "\"";
  return quoted;
}

namespace {

/// One step of a path: a member, or if that is null an element.
struct Step {
  const std::string* name = nullptr;
  std::size_t index = 0;
};

/// Finds the way to a part of a value; the last step comes first. Returns false if there is none.
bool find_steps(const Json& from, const Json* to, std::vector<Step>& steps) {
  if (&from == to) return true;
  for (std::size_t i = 0; i < from.elements().size(); ++i) {
    if (!find_steps(from[i], to, steps)) continue;
    steps.push_back({.index = i});
    return true;
  }
  for (const auto& [name, member] : from.sorted_items()) {
    if (!find_steps(member, to, steps)) continue;
    steps.push_back({.name = &name});
    return true;
  }
  return false;
}

void append_name(std::string& path, std::string_view name) {
  if (!path.ends_with(' ')) path += '.';
  path += name;
}

}  // namespace

JsonView::JsonView(const Json& value, std::string path)
    : value_(&value),
      root_(std::make_shared<const Root>(Root{.value = &value, .path = std::move(path)})) {}

std::string JsonView::path() const {
  std::string path = root_->path;
  std::vector<Step> steps;
  find_steps(*root_->value, above_ == nullptr ? value_ : above_, steps);
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    if (step->name != nullptr)
      append_name(path, *step->name);
    else
      fmt::format_to(std::back_inserter(path), "[{}]", step->index);
  }
  if (above_ != nullptr) append_name(path, missing_);
  return path;
}

JsonView JsonView::part(const Json& value) const {
  JsonView made = *this;
  made.value_ = &value;
  made.above_ = nullptr;
  return made;
}

Result<JsonView> JsonView::at_or_null(std::string_view key) const {
  static const Json kNull;
  if (!value_->is_object()) return corrupt("not an object");
  if (const Json* const found = value_->find(key)) return part(*found);
  JsonView missing = part(kNull);
  missing.above_ = value_;
  missing.missing_ = key;
  return missing;
}

Result<JsonView> JsonView::at(std::string_view key) const {
  STOKER_ASSIGN(JsonView member, at_or_null(key));
  if (member.above_ != nullptr) return member.corrupt("missing");
  return member;
}

Result<std::size_t> JsonView::array_size() const {
  if (!value_->is_array()) return corrupt("not an array");
  return value_->size();
}

JsonView JsonView::element(std::size_t index) const {
  return part((*value_)[index]);
}

Result<std::uint64_t> JsonView::u64(std::uint64_t value_max) const {
  if (value_->is_number_integer() && !value_->is_number_unsigned()) return corrupt("negative");
  if (!value_->is_number_unsigned()) return corrupt("not an integer");
  const std::uint64_t value = value_->get_uint64();
  if (value > value_max) return corrupt(fmt::format("{} is more than {}", value, value_max));
  return value;
}

Result<std::string> JsonView::text() const {
  if (!value_->is_string()) return corrupt("not a string");
  return value_->get_string();
}

Status JsonView::corrupt(std::string_view message) const {
  return {Code::corrupt, fmt::format("{}: {}", path(), message)};
}

}  // namespace stoker
