#include "checkpoint/ranks/message_json.h"

#include "formats/json/strict_json.h"

namespace stoker {

std::string message_text(const Json& message) {
  return message.dump({.is_ascii = true, .is_sorted = true});
}

Json failure_json(const Status& status) {
  return {{"code", static_cast<int>(status.code())},
          {"os_error", status.os_error()},
          {"message", std::string(status.message())}};
}

MessageMembers::MessageMembers(std::string_view text) {
  Result<Json> parsed = parse_strict_json(text, "message");
  if (parsed.ok()) json_ = *std::move(parsed);
  is_good_ = json_.is_object();
}

std::uint64_t MessageMembers::number(const char* key) {
  const Json* value = json_.find(key);
  is_good_ = is_good_ && value != nullptr && value->is_number_unsigned();
  return is_good_ ? value->get_uint64() : 0;
}

std::string MessageMembers::text(const char* key) {
  const Json* value = json_.find(key);
  is_good_ = is_good_ && value != nullptr && value->is_string();
  return is_good_ ? value->get_string() : std::string();
}

Status MessageMembers::failure(const char* key) {
  const Json* value = json_.find(key);
  const Json* code = value == nullptr ? nullptr : value->find("code");
  const Json* os_error = value == nullptr ? nullptr : value->find("os_error");
  const Json* message = value == nullptr ? nullptr : value->find("message");
  is_good_ = is_good_ && code != nullptr && code->is_number_unsigned() &&
             code->get_uint64() <= static_cast<std::uint64_t>(Code::denied) &&
             os_error != nullptr && os_error->is_number_integer() && message != nullptr &&
             message->is_string();
  if (!is_good_ || code->get_uint64() == 0) return {};
  return Status(static_cast<Code>(code->get_uint64()), message->get_string(),
                static_cast<int>(os_error->get_int64()));
}

std::vector<std::uint64_t> MessageMembers::numbers(const char* key) {
  std::vector<std::uint64_t> out;
  const Json* value = json_.find(key);
  is_good_ = is_good_ && value != nullptr && value->is_array();
  for (std::size_t i = 0; is_good_ && i < value->size(); ++i) {
    is_good_ = (*value)[i].is_number_unsigned();
    if (is_good_) out.push_back((*value)[i].get_uint64());
  }
  return out;
}

std::vector<std::string> MessageMembers::texts(const char* key) {
  std::vector<std::string> out;
  const Json* value = json_.find(key);
  is_good_ = is_good_ && value != nullptr && value->is_array();
  for (std::size_t i = 0; is_good_ && i < value->size(); ++i) {
    is_good_ = (*value)[i].is_string();
    if (is_good_) out.push_back((*value)[i].get_string());
  }
  return out;
}

std::vector<std::pair<std::string, std::string>> MessageMembers::pairs(const char* key) {
  std::vector<std::pair<std::string, std::string>> out;
  const Json* value = json_.find(key);
  is_good_ = is_good_ && value != nullptr && value->is_array();
  for (std::size_t i = 0; is_good_ && i < value->size(); ++i) {
    const Json& pair = (*value)[i];
    is_good_ = pair.is_array() && pair.size() == 2 && pair[0].is_string() && pair[1].is_string();
    if (is_good_) out.emplace_back(pair[0].get_string(), pair[1].get_string());
  }
  return out;
}

Status MessageMembers::check(bool is_sound) const {
  if (is_good_ && is_sound) return {};
  return Status(Code::corrupt, "a message from another rank is malformed");
}

}  // namespace stoker
