#include "checkpoint/save/save_messages.h"

#include <utility>

#include "formats/json/strict_json.h"

namespace stoker {
namespace {

Json status_json(const Status& status) {
  return {{"code", static_cast<int>(status.code())},
          {"os_error", status.os_error()},
          {"message", std::string(status.message())}};
}

std::string text_of(const Json& message) {
  return message.dump({.is_ascii = true, .is_sorted = true});
}

Status bad_message() {
  return Status(Code::corrupt, "a message between ranks cannot be read");
}

/// Reads members of one message; the first that is missing or of another type is remembered.
class Members {
 public:
  explicit Members(std::string_view text) {
    Result<Json> parsed = parse_strict_json(text, "message");
    if (parsed.ok()) json_ = *std::move(parsed);
    is_good_ = json_.is_object();
  }

  std::uint64_t number(const char* key) {
    const Json* value = json_.find(key);
    is_good_ = is_good_ && value != nullptr && value->is_number_unsigned();
    return is_good_ ? value->get_uint64() : 0;
  }
  std::string text(const char* key) {
    const Json* value = json_.find(key);
    is_good_ = is_good_ && value != nullptr && value->is_string();
    return is_good_ ? value->get_string() : std::string();
  }
  Status failure() {
    const Json* value = json_.find("failure");
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
  bool is_good() const { return is_good_; }

 private:
  Json json_;
  bool is_good_ = false;
};

template <typename Message>
Result<Message> if_good(const Members& members, Message message, bool is_sound = true) {
  if (!members.is_good() || !is_sound) return bad_message();
  return message;
}

}  // namespace

std::string format_message(const BeginMessage& message) {
  return text_of({{"step", message.step},
                  {"size_bytes", message.size_bytes},
                  {"is_late", message.is_late ? 1U : 0U},
                  {"waiting_number", message.waiting_number},
                  {"failed_number", message.failed_number},
                  {"failure", status_json(message.failure)}});
}

std::string format_message(const Verdict& message) {
  return text_of({{"action", static_cast<unsigned>(message.action)},
                  {"replaced_number", message.replaced_number},
                  {"raised_number", message.raised_number},
                  {"staging", message.staging},
                  {"failure", status_json(message.failure)}});
}

std::string format_message(const PartMessage& message) {
  return text_of({{"failure", status_json(message.failure)}});
}

std::string format_message(const EndMessage& message) {
  return text_of({{"outcome", static_cast<unsigned>(message.outcome)},
                  {"generation", message.generation},
                  {"line", message.line},
                  {"failure", status_json(message.failure)}});
}

Result<BeginMessage> parse_begin_message(std::string_view text) {
  Members members(text);
  BeginMessage message{.step = members.number("step"),
                       .size_bytes = members.number("size_bytes"),
                       .is_late = members.number("is_late") != 0,
                       .waiting_number = members.number("waiting_number"),
                       .failed_number = members.number("failed_number"),
                       .failure = members.failure()};
  return if_good(members, std::move(message));
}

Result<Verdict> parse_verdict(std::string_view text) {
  Members members(text);
  const std::uint64_t action = members.number("action");
  Verdict message{.action = static_cast<SaveAction>(action),
                  .replaced_number = members.number("replaced_number"),
                  .raised_number = members.number("raised_number"),
                  .staging = members.text("staging"),
                  .failure = members.failure()};
  const bool is_sound = action <= static_cast<std::uint64_t>(SaveAction::fail) &&
                        (message.action != SaveAction::fail || !message.failure.ok());
  return if_good(members, std::move(message), is_sound);
}

Result<PartMessage> parse_part_message(std::string_view text) {
  Members members(text);
  PartMessage message{.failure = members.failure()};
  return if_good(members, std::move(message));
}

Result<EndMessage> parse_end_message(std::string_view text) {
  Members members(text);
  const std::uint64_t outcome = members.number("outcome");
  EndMessage message{.outcome = static_cast<SaveOutcome>(outcome),
                     .generation = members.number("generation"),
                     .line = members.text("line"),
                     .failure = members.failure()};
  return if_good(members, std::move(message),
                 outcome <= static_cast<std::uint64_t>(SaveOutcome::unknown));
}

}  // namespace stoker
