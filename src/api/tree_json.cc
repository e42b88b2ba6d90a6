#include "api/tree_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "api/border.h"
#include "api/tree_access.h"
#include "checkpoint/manifest/manifest.h"
#include "checkpoint/manifest/manifest_json.h"
#include "formats/json/json_text.h"
#include "formats/json/strict_json.h"
#include "formats/utf8.h"

namespace stoker {
namespace internal {
namespace {

/// What every JSON parser reads exactly.
constexpr std::int64_t kPlainIntegerMax = std::int64_t{1} << 53;
constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64_of(std::span<const std::byte> bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8 | (k < count ? std::to_integer<std::uint32_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k)
      out += k <= count ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::optional<Tree::Bytes> bytes_of_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  Tree::Bytes out;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    std::size_t count = 4;
    while (i + 4 == text.size() && count > 2 && text[i + count - 1] == '=') --count;
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 4; ++k) {
      const std::size_t digit = k < count ? kDigits.find(text[i + k]) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      bits = bits << 6 | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t k = 0; k + 1 < count; ++k)
      out.push_back(static_cast<std::byte>(bits >> (16 - 8 * k) & 255));
  }
  return out;
}

/// What the content of a tag must be, whatever a reader makes of it.
struct TagRow {
  std::string_view tag;
  Tree::Kind content;
  bool is_any = false;  ///< Content of any kind.
};

constexpr std::array kTags = {
    TagRow{"!tuple", Tree::Kind::list},        TagRow{"!set", Tree::Kind::list},
    TagRow{"!frozenset", Tree::Kind::list},    TagRow{"!complex", Tree::Kind::list},
    TagRow{"!torch_size", Tree::Kind::list},   TagRow{"!ordered_dict", Tree::Kind::map},
    TagRow{"!counter", Tree::Kind::map},       TagRow{"!namespace", Tree::Kind::map},
    TagRow{"!flattened", Tree::Kind::map},     TagRow{"!trainable", Tree::Kind::map},
    TagRow{"!path", Tree::Kind::text},         TagRow{"!pure_path", Tree::Kind::text},
    TagRow{"!numpy_dtype", Tree::Kind::text},  TagRow{"!torch_dtype", Tree::Kind::text},
    TagRow{"!torch_device", Tree::Kind::text}, TagRow{"!enum", Tree::Kind::null, true},
};

bool is_name(std::string_view key) {
  return !key.starts_with('!');
}

/// Writes trees. Messages begin with the place.
class Writer {
 public:
  explicit Writer(const NameTensor& name) : name_(name) {}

  Result<std::string> write(const Tree& tree, const std::string& path, std::size_t depth) {
    if (depth > kStateDepthMax)
      return bad(path, "nested deeper than " + std::to_string(kStateDepthMax));
    const std::vector<std::string>& tags = TreeAccess::tags(tree);
    STOKER_ASSIGN(std::string text, write_plain(tree, path, depth + tags.size()));
    for (auto tag = tags.rbegin(); tag != tags.rend(); ++tag) {
      if (*tag == "!dict" || *tag == kSliceTag) continue;  // write_plain() has
      const std::size_t space = tag->find(' ');
      if (space == std::string::npos)
        text = "{\"" + *tag + "\": " + text + "}";
      else
        text =
            "{\"" + tag->substr(0, space) + "\": [" + tag->substr(space + 1) + ", " + text + "]}";
    }
    return text;
  }

 private:
  static Status bad(const std::string& path, const std::string& why) {
    return {Code::invalid_argument, path + ": " + why};
  }
  static bool has_tag(const Tree& tree, std::string_view tag) {
    return std::ranges::find(TreeAccess::tags(tree), tag) != TreeAccess::tags(tree).end();
  }

  Result<std::string> write_text(const std::string& text, const std::string& path) {
    if (!is_utf8(text)) return bad(path, "a text that is not UTF-8: save bytes");
    return quote_json(text);
  }

  static std::string write_integer(const Tree& tree) {
    if (const auto number = tree.int64()) {
      const std::string text = std::to_string(*number);
      const bool is_plain = *number >= -kPlainIntegerMax && *number <= kPlainIntegerMax;
      return is_plain ? text : R"({"!int": ")" + text + "\"}";
    }
    return R"({"!int": ")" + std::to_string(tree.uint64().value_or(0)) + "\"}";
  }

  Result<std::string> write_plain(const Tree& tree, const std::string& path, std::size_t depth) {
    switch (tree.kind()) {
      case Tree::Kind::null: return std::string("null");
      case Tree::Kind::boolean: return std::string(*tree.boolean() ? "true" : "false");
      case Tree::Kind::integer: return write_integer(tree);
      case Tree::Kind::real: return double_text(*tree.real());
      case Tree::Kind::text: return write_text(*tree.text(), path);
      case Tree::Kind::bytes: return R"({"!bytes": ")" + base64_of(*tree.bytes()) + "\"}";
      case Tree::Kind::tensor: return write_tensor(tree, path);
      case Tree::Kind::list: return write_list(tree, path, depth);
      case Tree::Kind::map: return write_map(tree, path, depth);
    }
    return bad(path, "an unknown kind");
  }

  Result<std::string> write_tensor(const Tree& tree, const std::string& path) {
    const TensorView& view = *tree.tensor();
    const Result<std::string> name = name_(view, path);
    if (!name.ok()) return name.status().with_context(path);
    STOKER_ASSIGN(std::string text, write_text(*name, path));
    std::string tag = view.is_torch ? "!torch" : "!tensor";
    if (!view.element.empty()) {
      STOKER_ASSIGN(const std::string element, write_text(view.element, path));
      text = "[" + text + ", " + element + "]";
      if (!view.is_torch) tag = "!array";
    }
    text = "{\"" + tag + "\": " + text + "}";
    const bool is_slice = view.is_slice() || has_tag(tree, kSliceTag);
    return is_slice ? R"({"!slice": )" + text + "}" : text;
  }

  Result<std::string> write_list(const Tree& tree, const std::string& path, std::size_t depth) {
    const bool is_dict = has_tag(tree, "!dict");
    std::string text = "[";
    for (std::size_t i = 0; i < tree.size(); ++i) {
      if (i > 0) text += ", ";
      const Tree& item = tree.items()[i];
      if (is_dict) {
        STOKER_ASSIGN(const std::string pair, write_pair(item, path, depth));
        text += pair;
      } else {
        STOKER_ASSIGN(const std::string one,
                      write(item, path + "." + std::to_string(i), depth + 1));
        text += one;
      }
    }
    text += "]";
    return is_dict ? R"({"!dict": )" + text + "}" : text;
  }

  /// A pair of a dict with other keys than texts.
  Result<std::string> write_pair(const Tree& pair, const std::string& path, std::size_t depth) {
    if (pair.size() != 2 || pair.kind() != Tree::Kind::list)
      return bad(path, "a dict is a list of pairs");
    const NameTensor no_tensors = [](const TensorView&, const std::string&) -> Result<std::string> {
      return Status(Code::invalid_argument, "a key of a dict is no tensor");
    };
    STOKER_ASSIGN(const std::string key,
                  Writer(no_tensors).write(pair.items()[0], path, depth + 3));
    std::string name = key;
    if (const std::string* const text = pair.items()[0].text()) name = *text;
    STOKER_ASSIGN(const std::string value, write(pair.items()[1], path + "." + name, depth + 3));
    return "[" + key + ", " + value + "]";
  }

  Result<std::string> write_map(const Tree& tree, const std::string& path, std::size_t depth) {
    const bool has_names = std::ranges::all_of(tree.fields(), is_name, &Tree::Field::name);
    std::string text;
    for (const Tree::Field& field : tree.fields()) {
      if (!text.empty()) text += ", ";
      STOKER_ASSIGN(const std::string name, write_text(field.name, path));
      STOKER_ASSIGN(const std::string value,
                    write(field.value, path + "." + field.name, depth + (has_names ? 1 : 3)));
      if (has_names)
        text.append(name).append(": ").append(value);
      else
        text.append("[").append(name).append(", ").append(value).append("]");
    }
    return has_names ? "{" + text + "}" : R"({"!dict": [)" + text + "]}";
  }

  const NameTensor& name_;
};

/// Reads trees from a text, which has been parsed as well: that loses the order of members.
class Reader {
 public:
  explicit Reader(std::string_view what) : what_(what) {}

  Result<Tree> read(const Json& json, std::string_view text) const {
    if (json.is_null()) return Tree();
    if (json.is_boolean()) return Tree(json.get_bool());
    if (json.is_string()) return Tree(json.get_string());
    if (json.is_number_float()) return Tree(json.get_double());
    if (json.is_number_unsigned()) {
      const std::uint64_t number = json.get_uint64();
      return std::in_range<std::int64_t>(number) ? Tree(static_cast<std::int64_t>(number))
                                                 : Tree(number);
    }
    if (json.is_number()) return Tree(json.get_int64());
    if (json.is_array()) return read_list(json, text);
    const JsonMemberTexts members = json_member_texts(text);
    if (members.size() == 1 && members.front().first.starts_with('!'))
      return read_tag(members.front().first, *json.find(members.front().first),
                      members.front().second);
    Tree made = Tree::map();
    for (const auto& [name, value] : members) {
      STOKER_ASSIGN(Tree field, read(*json.find(name), value));
      TreeAccess::add(made, name, std::move(field));
    }
    return made;
  }

 private:
  Status corrupt(std::string_view why) const {
    return {Code::corrupt, std::string(what_) + ": no state tree: " + std::string(why)};
  }
  Status no_content(std::string_view tag) const {
    return corrupt("a tag without its content: " + std::string(tag));
  }

  Result<Tree> read_list(const Json& json, std::string_view text) const {
    const std::vector<std::string_view> texts = json_element_texts(text);
    Tree::List items;
    items.reserve(texts.size());
    for (std::size_t i = 0; i < texts.size(); ++i) {
      STOKER_ASSIGN(Tree item, read(json[i], texts[i]));
      items.push_back(std::move(item));
    }
    return Tree::list(std::move(items));
  }

  static Tree tagged(Tree tree, std::string tag) {
    std::vector<std::string> tags = TreeAccess::tags(tree);
    tags.insert(tags.begin(), std::move(tag));
    TreeAccess::set_tags(tree, std::move(tags));
    return tree;
  }

  Result<Tree> read_tag(const std::string& tag, const Json& body, std::string_view text) const {
    if (tag == "!float") return read_float(body);
    if (tag == "!int") return read_integer(body);
    if (tag == "!bytes") {
      auto bytes = body.is_string() ? bytes_of_base64(body.get_string()) : std::nullopt;
      return bytes ? Result<Tree>(Tree(*std::move(bytes))) : no_content(tag);
    }
    if (tag == "!tensor" || tag == "!torch" || tag == "!array") return read_tensor(tag, body);
    if (tag == "!scalar" || tag == "!bytes_io" || tag == kSliceTag) {
      STOKER_ASSIGN(Tree inner, read(body, text));
      if (inner.kind() != Tree::Kind::tensor || !inner.tag().empty()) return no_content(tag);
      return tagged(std::move(inner), tag);
    }
    if (tag == "!dict") return read_dict(body, text);
    if (tag == "!default_dict") {
      if (!body.is_array() || body.size() != 2) return no_content(tag);
      STOKER_ASSIGN(Tree dict, read(body[1], json_element_texts(text)[1]));
      return tagged(std::move(dict), tag + " " + body[0].dump());
    }
    const auto row = std::ranges::find(kTags, tag, &TagRow::tag);
    if (row == kTags.end())
      return Status(Code::unsupported, std::string(what_) + ": the tag " + tag +
                                           " is unknown: a later version has written it");
    STOKER_ASSIGN(Tree content, read(body, text));
    const bool is_dict = row->content == Tree::Kind::map && content.tag() == "!dict";
    if (!row->is_any && content.kind() != row->content && !is_dict) return no_content(tag);
    return tagged(std::move(content), tag);
  }

  Result<Tree> read_float(const Json& body) const {
    const std::string& text = body.get_string();
    if (text == "nan") return Tree(std::numeric_limits<double>::quiet_NaN());
    if (text == "inf") return Tree(std::numeric_limits<double>::infinity());
    if (text == "-inf") return Tree(-std::numeric_limits<double>::infinity());
    return no_content("!float");
  }

  /// An integer that does not fit 64 bits is kept as its digits.
  Result<Tree> read_integer(const Json& body) const {
    constexpr std::size_t kDigitsMax = 4000;
    const std::string& text = body.get_string();
    const std::string_view digits = std::string_view(text).substr(text.starts_with('-') ? 1 : 0);
    if (digits.empty() || digits.size() > kDigitsMax ||
        digits.find_first_not_of("0123456789") != std::string_view::npos)
      return no_content("!int");
    std::int64_t number = 0;
    std::uint64_t large = 0;
    const char* const end = text.data() + text.size();
    if (std::from_chars(text.data(), end, number).ec == std::errc()) return Tree(number);
    if (std::from_chars(text.data(), end, large).ec == std::errc()) return Tree(large);
    return tagged(Tree(text), "!int");
  }

  Result<Tree> read_tensor(const std::string& tag, const Json& body) const {
    TensorView view{.is_torch = tag == "!torch"};
    if (body.is_string() && tag != "!array") {
      view.name = body.get_string();
    } else if (body.is_array() && body.size() == 2 && body[0].is_string() && body[1].is_string() &&
               tag != "!tensor") {
      view.name = body[0].get_string();
      view.element = body[1].get_string();
    } else {
      return no_content(tag);
    }
    return Tree(std::move(view));
  }

  /// A dict is a map if all its keys are texts, otherwise a list of pairs.
  Result<Tree> read_dict(const Json& body, std::string_view text) const {
    if (!body.is_array()) return no_content("!dict");
    STOKER_ASSIGN(Tree pairs, read_list(body, text));
    bool has_texts = true;
    for (const Tree& pair : std::as_const(pairs).items()) {
      if (pair.kind() != Tree::Kind::list || pair.size() != 2) return no_content("!dict");
      has_texts = has_texts && pair.items()[0].text() != nullptr && pair.items()[0].tag().empty();
    }
    if (!has_texts) return tagged(std::move(pairs), "!dict");
    Tree made = Tree::map();
    std::set<std::string_view> keys;
    for (Tree& pair : pairs.items()) {
      if (!keys.insert(*pair.items()[0].text()).second) return corrupt("a duplicate key");
      TreeAccess::add(made, *pair.items()[0].text(), std::move(pair.items()[1]));
    }
    return made;
  }

  const std::string_view what_;
};

}  // namespace

Result<std::string> write_tree(const Tree& tree, const std::string& path, const NameTensor& name) {
  return Writer(name).write(tree, path, 1);
}

Result<Tree> read_tree(std::string_view json, std::string_view what) {
  STOKER_ASSIGN(const Json parsed, parse_strict_json(json, what));
  return Reader(what).read(parsed, json);
}

}  // namespace internal

Result<std::string> format_tree(const Tree& tree) {
  return internal::at_border([&]() -> Result<std::string> {
    return internal::write_tree(
        tree, "tree", [](const TensorView& view, const std::string&) -> Result<std::string> {
          return view.name;
        });
  });
}

Result<Tree> parse_tree(std::string_view json) {
  return internal::at_border([&] { return internal::read_tree(json, "tree"); });
}

}  // namespace stoker
