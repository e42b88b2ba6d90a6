#include "store/credentials/key_text.h"

#include <algorithm>
#include <ctime>
#include <optional>

#include "formats/json/strict_json.h"
#include "store/text/xml.h"

namespace stoker {
namespace {

constexpr std::size_t kKeyTextMax = std::size_t{1} << 20;

std::string_view without_spaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\r\n";
  const std::size_t first = std::min(text.find_first_not_of(kSpaces), text.size());
  return text.substr(first, text.find_last_not_of(kSpaces) + 1 - first);
}

/// Whether a key can be part of a header.
bool is_key(std::string_view text) {
  constexpr std::size_t kBytesMax = std::size_t{16} << 10;
  return text.size() <= kBytesMax &&
         std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; });
}

/// Reads "2026-11-19T12:00:00Z", with or without a fraction of a second.
std::optional<WallTime> time_of(std::string_view text) {
  std::tm utc{};
  const std::string copy(text);
  const char* const end = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &utc);
  if (end == nullptr || !copy.ends_with("Z")) return std::nullopt;
  return std::chrono::system_clock::from_time_t(::timegm(&utc));
}

Result<FetchedCredentials> checked(FetchedCredentials fetched, std::string_view expires) {
  const S3Credentials& keys = fetched.keys;
  if (keys.access_key_id.empty() || keys.secret_access_key.empty() || !is_key(keys.access_key_id) ||
      !is_key(keys.secret_access_key) || !is_key(keys.session_token))
    return Status(Code::corrupt, "the answer has no valid access key");
  if (expires.empty()) return fetched;
  fetched.expires = time_of(expires);
  if (!fetched.expires)
    return Status(Code::corrupt, "the answer does not say when the keys expire");
  return fetched;
}

std::string text_in(const Json& object, std::string_view name) {
  const Json* const found = object.find(name);
  return found != nullptr && found->is_string() ? found->get_string() : std::string();
}

}  // namespace

Result<IniFile> parse_ini(std::string_view text) {
  if (text.size() > kKeyTextMax) return Status(Code::corrupt, "longer than 1 MiB");
  IniFile file;
  IniSection* section = nullptr;
  std::size_t number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const std::string_view line = without_spaces(whole);
    if (line.empty() || line[0] == '#' || line[0] == ';') continue;
    if (section != nullptr && (whole[0] == ' ' || whole[0] == '\t')) continue;
    if (line[0] == '[') {
      const std::size_t close = line.find(']');
      if (close == std::string_view::npos)
        return Status(Code::corrupt, "line " + std::to_string(number) + ": a \"]\" is missing");
      section = &file[std::string(without_spaces(line.substr(1, close - 1)))];
      continue;
    }
    const std::size_t equals = line.find('=');
    if (section == nullptr || equals == std::string_view::npos)
      return Status(Code::corrupt, "line " + std::to_string(number) +
                                       ": neither \"[section]\" nor \"name = value\"");
    std::string name(without_spaces(line.substr(0, equals)));
    for (char& c : name)
      if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    (*section)[name] = without_spaces(line.substr(equals + 1));
  }
  return file;
}

Result<FetchedCredentials> parse_json_keys(std::string_view text) {
  const Result<Json> object = parse_strict_json(
      text, "keys", {.text_bytes_max = kKeyTextMax, .depth_max = 8, .value_count_max = 1000});
  if (!object.ok()) return Status(Code::corrupt, "the answer is no valid JSON");
  FetchedCredentials fetched{.keys = {.access_key_id = text_in(*object, "AccessKeyId"),
                                      .secret_access_key = text_in(*object, "SecretAccessKey"),
                                      .session_token = text_in(*object, "SessionToken")}};
  if (fetched.keys.session_token.empty()) fetched.keys.session_token = text_in(*object, "Token");
  return checked(std::move(fetched), text_in(*object, "Expiration"));
}

Result<FetchedCredentials> parse_sts_keys(std::string_view text) {
  const Result<XmlElement> root = parse_xml(text);
  if (!root.ok()) return Status(Code::corrupt, "the answer is no valid XML");
  const XmlElement* const result = root->child("AssumeRoleWithWebIdentityResult");
  const XmlElement* const keys = result == nullptr ? nullptr : result->child("Credentials");
  if (keys == nullptr) return Status(Code::corrupt, "the answer has no credentials");
  return checked({.keys = {.access_key_id = std::string(keys->text_of("AccessKeyId")),
                           .secret_access_key = std::string(keys->text_of("SecretAccessKey")),
                           .session_token = std::string(keys->text_of("SessionToken"))}},
                 keys->text_of("Expiration"));
}

}  // namespace stoker
