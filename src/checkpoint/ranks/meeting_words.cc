#include "checkpoint/ranks/meeting_words.h"

#include <nlohmann/json.hpp>

#include "checkpoint/directory/lock_record.h"
#include "checkpoint/ranks/coordinator.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using nlohmann::json;

constexpr std::size_t kClaimBytes = 1024;

json identity_json(const ProcessIdentity& process) {
  constexpr std::size_t kSpaceBytesMax = 128;
  return json::array({process.space.substr(0, kSpaceBytesMax), process.pid, process.started});
}

std::optional<ProcessIdentity> identity_in(const json& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  const json& said = object[key];
  if (!said.is_array() || said.size() != 3 || !said[0].is_string() ||
      !said[1].is_number_integer() || !said[2].is_string())
    return std::nullopt;
  return ProcessIdentity{.space = said[0].get<std::string>(),
                         .pid = said[1].get<std::int64_t>(),
                         .started = said[2].get<std::string>()};
}

/// Of a text that anybody may have written. `read` may throw what the library throws for a value
/// of another type.
template <typename Word, typename Read>
std::optional<Word> parse_word(std::string_view text, Read&& read) {
  const Result<json> said = parse_strict_json(text, "");
  if (!said.ok()) return std::nullopt;
  try {
    return read(*said);
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

std::string word_name(std::string_view prefix, std::uint32_t rank, const std::string& nonce) {
  return std::string(prefix) + std::to_string(rank) + "-" + nonce;
}

std::optional<std::pair<std::uint32_t, std::string>> parse_word_name(std::string_view name,
                                                                     std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  name.remove_prefix(prefix.size());
  const std::size_t dash = name.find('-');
  if (dash == 0 || dash == std::string_view::npos || dash > 9) return std::nullopt;
  std::uint32_t rank = 0;
  for (const char c : name.substr(0, dash)) {
    if (c < '0' || c > '9') return std::nullopt;
    rank = rank * 10 + static_cast<std::uint32_t>(c - '0');
  }
  const std::string_view nonce = name.substr(dash + 1);
  if (!is_plain_word(nonce)) return std::nullopt;  // it is passed on in messages, as JSON
  return std::pair(rank, std::string(nonce));
}

bool RankClaim::is_of_another_job(const RankClaim& other) const {
  return launcher.is_known() && other.launcher.is_known() &&
         launcher.space == other.launcher.space && launcher != other.launcher;
}

std::string RankClaim::who() const {
  std::string text = "pid " + std::to_string(process.pid) + " on " + text_for_people(host);
  if (launcher.is_known()) text += ", started by pid " + std::to_string(launcher.pid);
  return text;
}

std::string RankClaim::format(std::uint64_t beat) const {
  constexpr std::size_t kHostBytesMax = 64;
  const json text = {{"host", host.substr(0, kHostBytesMax)},
                     {"process", identity_json(process)},
                     {"launcher", identity_json(launcher)},
                     {"beat", beat}};
  std::string line = text.dump(-1, ' ', true, json::error_handler_t::replace);
  line.resize(kClaimBytes - 1, ' ');
  return line + "\n";
}

std::optional<RankClaim> RankClaim::parse(std::string_view text, std::uint32_t rank,
                                          const std::string& nonce) {
  return parse_word<RankClaim>(text, [&](const json& said) -> std::optional<RankClaim> {
    const auto process = identity_in(said, "process");
    const auto launcher = identity_in(said, "launcher");
    if (!process || !launcher) return std::nullopt;
    return RankClaim{.rank = rank,
                     .nonce = nonce,
                     .host = said.at("host").get<std::string>(),
                     .process = *process,
                     .launcher = *launcher};
  });
}

std::string RankWelcome::format() const {
  return json{{"session", session},
              {"nonces", nonces},
              {"members", members},
              {"missing", missing},
              {"failure", failure}}
      .dump();
}

std::optional<RankWelcome> RankWelcome::parse(std::string_view text) {
  return parse_word<RankWelcome>(text, [](const json& said) {
    return RankWelcome{.session = said.at("session").get<std::string>(),
                       .nonces = said.at("nonces").get<std::set<std::string>>(),
                       .members = said.at("members").get<std::vector<std::string>>(),
                       .missing = said.at("missing").get<std::vector<std::uint32_t>>(),
                       .failure = said.at("failure").get<std::string>()};
  });
}

std::string RankRefusal::format() const {
  return json{{"nonces", nonces}, {"text", text}}.dump();
}

std::optional<RankRefusal> RankRefusal::parse(std::string_view text) {
  return parse_word<RankRefusal>(text, [](const json& said) {
    return RankRefusal{.nonces = said.at("nonces").get<std::set<std::string>>(),
                       .text = said.at("text").get<std::string>()};
  });
}

}  // namespace stoker
