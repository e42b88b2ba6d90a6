#include "checkpoint/ranks/meeting_words.h"

#include "checkpoint/directory/lock_record.h"
#include "checkpoint/manifest/manifest_json.h"
#include "checkpoint/ranks/coordinator.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

using internal::text_at;

constexpr std::size_t kClaimBytes = 1024;

template <typename List>
Json list_json(const List& list) {
  Json json = Json::array();
  for (const auto& element : list) json.push_back(element);
  return json;
}

Json identity_json(const ProcessIdentity& process) {
  constexpr std::size_t kSpaceBytesMax = 128;
  Json json = Json::array();
  json.push_back(process.space.substr(0, kSpaceBytesMax));
  json.push_back(process.pid);
  json.push_back(process.started);
  return json;
}

Result<ProcessIdentity> identity_at(const JsonView& root, std::string_view key) {
  STOKER_ASSIGN(const JsonView view, root.at(key));
  const Json& said = view.value();
  if (said.size() != 3 || !said[0].is_string() || !said[1].is_number_integer() ||
      !said[2].is_string())
    return view.corrupt("not an identity");
  return ProcessIdentity{
      .space = said[0].get_string(), .pid = said[1].get_int64(), .started = said[2].get_string()};
}

Result<std::vector<std::string>> texts_at(const JsonView& root, std::string_view key) {
  STOKER_ASSIGN(const JsonView list, root.at(key));
  STOKER_ASSIGN(const std::size_t count, list.array_size());
  std::vector<std::string> texts(count);
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(texts[i], list.element(i).text());
  }
  return texts;
}

Result<std::set<std::string>> nonces_at(const JsonView& root) {
  STOKER_ASSIGN(const std::vector<std::string> nonces, texts_at(root, "nonces"));
  return std::set<std::string>(nonces.begin(), nonces.end());
}

Result<std::vector<std::uint32_t>> ranks_at(const JsonView& root, std::string_view key) {
  STOKER_ASSIGN(const JsonView list, root.at(key));
  STOKER_ASSIGN(const std::size_t count, list.array_size());
  std::vector<std::uint32_t> ranks;
  for (std::size_t i = 0; i < count; ++i) {
    STOKER_ASSIGN(const std::uint64_t rank, list.element(i).u64(UINT32_MAX));
    ranks.push_back(static_cast<std::uint32_t>(rank));
  }
  return ranks;
}

Result<RankClaim> read_claim(const JsonView& said) {
  RankClaim claim;
  STOKER_ASSIGN(claim.host, text_at(said, "host"));
  STOKER_ASSIGN(claim.process, identity_at(said, "process"));
  STOKER_ASSIGN(claim.launcher, identity_at(said, "launcher"));
  return claim;
}

Result<RankWelcome> read_welcome(const JsonView& said) {
  RankWelcome welcome;
  STOKER_ASSIGN(welcome.session, text_at(said, "session"));
  STOKER_ASSIGN(welcome.nonces, nonces_at(said));
  STOKER_ASSIGN(welcome.members, texts_at(said, "members"));
  STOKER_ASSIGN(welcome.missing, ranks_at(said, "missing"));
  STOKER_ASSIGN(welcome.failure, text_at(said, "failure"));
  return welcome;
}

Result<RankRefusal> read_refusal(const JsonView& said) {
  RankRefusal refusal;
  STOKER_ASSIGN(refusal.nonces, nonces_at(said));
  STOKER_ASSIGN(refusal.text, text_at(said, "text"));
  return refusal;
}

/// Parses untrusted text; returns nothing if it is invalid.
template <typename Word>
std::optional<Word> parse_word(std::string_view text, Result<Word> (*read)(const JsonView&)) {
  const Result<Json> said = parse_strict_json(text, "");
  if (!said.ok()) return std::nullopt;
  Result<Word> word = read(JsonView(*said, ""));
  if (!word.ok()) return std::nullopt;
  return *std::move(word);
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
  if (!is_plain_word(nonce)) return std::nullopt;  // it becomes part of JSON messages
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
  const Json text = {{"host", host.substr(0, kHostBytesMax)},
                     {"process", identity_json(process)},
                     {"launcher", identity_json(launcher)},
                     {"beat", beat}};
  std::string line = text.dump({.is_ascii = true, .is_sorted = true});
  line.resize(kClaimBytes - 1, ' ');
  return line + "\n";
}

std::optional<RankClaim> RankClaim::parse(std::string_view text, std::uint32_t rank,
                                          const std::string& nonce) {
  std::optional<RankClaim> claim = parse_word(text, read_claim);
  if (claim) {
    claim->rank = rank;
    claim->nonce = nonce;
  }
  return claim;
}

std::string RankWelcome::format() const {
  const Json text = {{"session", session},
                     {"nonces", list_json(nonces)},
                     {"members", list_json(members)},
                     {"missing", list_json(missing)},
                     {"failure", failure}};
  return text.dump({.is_sorted = true});
}

std::optional<RankWelcome> RankWelcome::parse(std::string_view text) {
  return parse_word(text, read_welcome);
}

std::string RankRefusal::format() const {
  return Json{{"nonces", list_json(nonces)}, {"text", text}}.dump({.is_sorted = true});
}

std::optional<RankRefusal> RankRefusal::parse(std::string_view text) {
  return parse_word(text, read_refusal);
}

}  // namespace stoker
