#include "formats/webdataset/webdataset_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "formats/webdataset/tar_header.h"

namespace stoker {
namespace {

Status refuse_key(std::string_view key, std::string_view why) {
  return Status(Code::invalid_argument, fmt::format("key {}: {}", tar_quoted(key), why));
}

Status refuse_field(std::string_view key, std::string_view field, std::string_view why) {
  return Status(Code::invalid_argument,
                fmt::format("sample {}, field {}: {}", tar_quoted(key), tar_quoted(field), why));
}

bool contains(std::string_view text, char c) {
  return text.find(c) != std::string_view::npos;
}

}  // namespace

std::optional<MemberName> split_member_name(std::string_view name) noexcept {
  const std::size_t slash = name.rfind('/');
  const std::size_t base = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', base);
  if (dot == std::string_view::npos) return std::nullopt;
  // `.*/` matches as many directories as it can, but no newline, and leaves at least one character
  // before the dot; `[^.]+` matches the rest of the key.
  const std::size_t greedy_end = std::min(name.find('\n'), dot == 0 ? 0 : dot - 1);
  const std::size_t greedy_slash =
      greedy_end == 0 ? std::string_view::npos : name.rfind('/', greedy_end - 1);
  const std::size_t stem = greedy_slash == std::string_view::npos ? 0 : greedy_slash + 1;
  const std::string_view rest = name.substr(stem, dot - stem);
  if (rest.empty() || contains(rest, '.')) return std::nullopt;
  return MemberName{name.substr(0, dot), name.substr(dot + 1)};
}

bool is_metadata_name(std::string_view name) noexcept {
  if (!name.starts_with("__")) return false;
  const std::size_t slash = name.find('/');
  std::string_view first = name.substr(0, slash);
  // `$` also matches before a newline at the end of the name.
  if (slash == std::string_view::npos && first.ends_with('\n')) first.remove_suffix(1);
  return first.size() >= 4 && first.ends_with("__");
}

bool is_reserved_field(std::string_view field) noexcept {
  return field.size() >= 4 && field.starts_with("__") && field.ends_with("__");
}

char to_lower_case(char c) noexcept {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

bool is_lower_case(std::string_view extension) noexcept {
  return std::ranges::all_of(extension, [](char c) { return c == to_lower_case(c); });
}

bool is_integer_extension(std::string_view extension) noexcept {
  constexpr std::array<std::string_view, 5> kIntegers = {"cls", "cls2", "index", "inx", "id"};
  return std::ranges::find(kIntegers, extension.substr(extension.rfind('.') + 1)) !=
         kIntegers.end();
}

FieldType type_of_extension(std::string_view extension) noexcept {
  const std::string_view last = extension.substr(extension.rfind('.') + 1);
  constexpr std::array<std::string_view, 3> kText = {"txt", "text", "transcript"};
  if (is_integer_extension(extension) || std::ranges::find(kText, last) != kText.end())
    return FieldType::text;
  if (last == "json" || last == "jsn") return FieldType::json;
  return FieldType::bytes;
}

Status check_key(std::string_view key) {
  if (key.empty()) return refuse_key(key, "a sample of a WebDataset shard needs a key");
  if (contains(key, '\0')) return refuse_key(key, "has a NUL in it");
  if (key.front() == '/')
    return refuse_key(key, "begins with a slash: names in a tar are relative");
  if (key.back() == '/') return refuse_key(key, "ends in a slash: its last part must not be empty");
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    if (key.substr(begin, end - begin) == "..")
      return refuse_key(key, "has a part \"..\", which readers refuse");
    begin = end + 1;
  }
  if (contains(key.substr(key.rfind('/') + 1), '.'))
    return refuse_key(key,
                      "has a dot in its last part: readers take what follows the first dot "
                      "for the field's name; replace it, for example by \"_\"");
  return {};
}

Status check_field(std::string_view key, const FieldView& field) {
  if (field.name.empty()) return refuse_field(key, field.name, "a field needs a name");
  if (contains(field.name, '\0') || contains(field.name, '/'))
    return refuse_field(key, field.name, "a field's name may not hold a slash or a NUL");
  if (!is_lower_case(field.name))
    return refuse_field(key, field.name, "readers turn names into lower case: write it so");
  if (is_reserved_field(field.name))
    return refuse_field(key, field.name, "\"__...__\" is webdataset's own; rename the field");
  if (field.type != FieldType::bytes && field.type != FieldType::text &&
      field.type != FieldType::json)
    return refuse_field(key, field.name,
                        "a tar keeps no types of numbers and no shapes: encode it, as text "
                        "(\"cls\") or as a NumPy file (\"npy\")");
  std::string name;
  name.append(key).append(".").append(field.name);
  if (name.size() > kTarNameBytesMax)
    return refuse_field(key, field.name, "key and field together are longer than 4096 bytes");
  const std::optional<MemberName> split = split_member_name(name);
  if (is_metadata_name(name) || !split || split->key != key)
    return refuse_field(key, field.name,
                        "readers would not take this name apart into this key and this field "
                        "(\"__...__\", or a dot or a new line in a directory)");
  return {};
}

}  // namespace stoker
