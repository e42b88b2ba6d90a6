#include "checkpoint/save/save_messages.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "checkpoint/ranks/message_json.h"

namespace stoker {
namespace {

template <typename Message>
Result<Message> if_good(const MessageMembers& members, Message message, bool is_sound = true) {
  STOKER_TRY(members.check(is_sound));
  return message;
}

/// Returns an empty text for nothing, and otherwise a list after ':'.
template <typename List, typename Format>
std::string optional_text(const std::optional<List>& list, const Format& format) {
  return list ? ":" + format(*list) : std::string();
}

/// The inverse; false for any other text.
template <typename List, typename Parse>
bool parse_optional(std::string_view text, const Parse& parse, std::optional<List>& list) {
  if (text.empty()) return true;
  if (text.front() != ':') return false;
  list = parse(text.substr(1));
  return list.has_value();
}

}  // namespace

std::string format_message(const BeginMessage& message) {
  return message_text({{"call", message.call},
                       {"is_behind", message.is_behind ? 1U : 0U},
                       {"step", message.step},
                       {"size_bytes", message.size_bytes},
                       {"is_late", message.is_late ? 1U : 0U},
                       {"waiting_number", message.waiting_number},
                       {"failed_number", message.failed_number},
                       {"failure", failure_json(message.failure)},
                       {"shared_number", message.shared_number},
                       {"pieces", optional_text(message.pieces, format_pieces)},
                       {"place", message.place},
                       {"host", message.host},
                       {"token", message.token},
                       {"free_bytes", message.free_bytes},
                       {"unreserved_bytes", message.unreserved_bytes}});
}

std::string format_message(const Verdict& message) {
  Json calls = Json::array();
  for (const std::uint64_t call : message.calls) calls.push_back(call);
  Json places = Json::array();
  for (const std::uint32_t place : message.places) places.push_back(place);
  return message_text({{"action", static_cast<unsigned>(message.action)},
                       {"step", message.step},
                       {"calls", std::move(calls)},
                       {"replaced_number", message.replaced_number},
                       {"raised_number", message.raised_number},
                       {"staging", message.staging},
                       {"failure", failure_json(message.failure)},
                       {"owners", optional_text(message.owners, format_owners)},
                       {"places", std::move(places)},
                       {"tokens", Json::array_of(message.tokens)}});
}

std::string checkpoint_id(std::uint64_t generation, std::string_view line) {
  return std::to_string(generation) + "-" + std::string(line);
}

// The part follows on lines of its own, because it may have many megabytes.
std::string format_message(const PartMessage& message) {
  return message_text(
             {{"failure", failure_json(message.failure)}, {"generation", message.generation}}) +
         (message.part.empty() ? "" : "\n" + message.part);
}

// Values as their bits: they may be infinite.
std::string format_message(const PlaceReport& message) {
  Json values = Json::array();
  for (const double value : message.values) values.push_back(std::bit_cast<std::uint64_t>(value));
  return message_text({{"failure", failure_json(message.failure)},
                       {"has_rules", message.has_rules ? 1U : 0U},
                       {"steps", Json::array_of(message.steps)},
                       {"pinned", Json::array_of(message.pinned)},
                       {"valued", Json::array_of(message.valued)},
                       {"values", std::move(values)},
                       {"has_invalid", message.has_invalid ? 1U : 0U}});
}

// As large.
std::string format_message(const ManifestMessage& message) {
  if (message.failure.ok()) return "=" + message.manifest;
  return message_text({{"failure", failure_json(message.failure)}});
}

std::string format_message(const EndMessage& message) {
  return message_text({{"outcome", static_cast<unsigned>(message.outcome)},
                       {"generation", message.generation},
                       {"line", message.line},
                       {"failure", failure_json(message.failure)},
                       {"has_decided", message.has_decided ? 1U : 0U},
                       {"keep", Json::array_of(message.keep)},
                       {"drop", Json::array_of(message.drop)}});
}

Result<BeginMessage> parse_begin_message(std::string_view text) {
  MessageMembers members(text);
  BeginMessage message{.call = members.number("call"),
                       .is_behind = members.number("is_behind") != 0,
                       .step = members.number("step"),
                       .size_bytes = members.number("size_bytes"),
                       .is_late = members.number("is_late") != 0,
                       .waiting_number = members.number("waiting_number"),
                       .failed_number = members.number("failed_number"),
                       .failure = members.failure(),
                       .shared_number = members.number("shared_number")};
  const bool is_sound = parse_optional(members.text("pieces"), parse_pieces, message.pieces);
  message.place = members.text("place");
  message.host = members.text("host");
  message.token = members.text("token");
  message.free_bytes = members.number("free_bytes");
  message.unreserved_bytes = members.number("unreserved_bytes");
  return if_good(members, std::move(message), is_sound);
}

Result<Verdict> parse_verdict(std::string_view text) {
  MessageMembers members(text);
  const std::uint64_t action = members.number("action");
  Verdict message{.action = static_cast<SaveAction>(action),
                  .step = members.number("step"),
                  .calls = members.numbers("calls"),
                  .replaced_number = members.number("replaced_number"),
                  .raised_number = members.number("raised_number"),
                  .staging = members.text("staging"),
                  .failure = members.failure()};
  const bool has_owners = parse_optional(members.text("owners"), parse_owners, message.owners);
  for (const std::uint64_t place : members.numbers("places"))
    message.places.push_back(static_cast<std::uint32_t>(place));
  message.tokens = members.texts("tokens");
  const bool is_failure =
      message.action == SaveAction::fail || message.action == SaveAction::fail_behind;
  const bool has_tokens = std::ranges::all_of(
      message.places, [&](std::uint32_t place) { return place < message.tokens.size(); });
  const bool is_sound = has_owners && has_tokens &&
                        action <= static_cast<std::uint64_t>(SaveAction::make_room) &&
                        (!is_failure || !message.failure.ok());
  return if_good(members, std::move(message), is_sound);
}

Result<PartMessage> parse_part_message(std::string_view text) {
  const std::size_t line = std::min(text.find('\n'), text.size());
  MessageMembers members(text.substr(0, line));
  PartMessage message{.failure = members.failure()};
  if (line < text.size()) message.part = text.substr(line + 1);
  message.generation = members.number("generation");
  return if_good(members, std::move(message));
}

Result<PlaceReport> parse_place_report(std::string_view text) {
  MessageMembers members(text);
  PlaceReport message{.failure = members.failure(),
                      .has_rules = members.number("has_rules") != 0,
                      .steps = members.texts("steps"),
                      .pinned = members.texts("pinned"),
                      .valued = members.texts("valued")};
  for (const std::uint64_t bits : members.numbers("values"))
    message.values.push_back(std::bit_cast<double>(bits));
  message.has_invalid = members.number("has_invalid") != 0;
  const bool is_sound = message.valued.size() == message.values.size();
  return if_good(members, std::move(message), is_sound);
}

Result<ManifestMessage> parse_manifest_message(std::string_view text) {
  if (text.starts_with('=')) return ManifestMessage{.manifest = std::string(text.substr(1))};
  MessageMembers members(text);
  ManifestMessage message{.failure = members.failure()};
  const bool has_failure = !message.failure.ok();
  return if_good(members, std::move(message), has_failure);
}

Result<EndMessage> parse_end_message(std::string_view text) {
  MessageMembers members(text);
  const std::uint64_t outcome = members.number("outcome");
  EndMessage message{.outcome = static_cast<SaveOutcome>(outcome),
                     .generation = members.number("generation"),
                     .line = members.text("line"),
                     .failure = members.failure(),
                     .has_decided = members.number("has_decided") != 0,
                     .keep = members.texts("keep"),
                     .drop = members.texts("drop")};
  return if_good(members, std::move(message),
                 outcome <= static_cast<std::uint64_t>(SaveOutcome::unknown));
}

}  // namespace stoker
