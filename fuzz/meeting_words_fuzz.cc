// The messages of ranks in a meeting: the first byte tells what the rest is, a claim after its name
// and a line break, a welcome or a refusal. Accepted messages must survive a round trip.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "checkpoint/ranks/meeting_words.h"
#include "fuzz/json_text_mutator.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

/// An accepted message must survive a round trip.
template <typename Word>
void read_word(std::string_view text) {
  const std::optional<Word> word = Word::parse(text);
  if (!word) return;
  const std::string written = word->format();
  const std::optional<Word> again = Word::parse(written);
  require(again.has_value() && again->format() == written);
}

void read_claim(std::string_view input) {
  const std::string_view name = input.substr(0, input.find('\n'));
  const std::string_view text = input.substr(std::min(name.size() + 1, input.size()));
  const auto word = parse_word_name(name, kClaimPrefix);
  if (word)
    require(parse_word_name(word_name(kClaimPrefix, word->first, word->second), kClaimPrefix) ==
            word);
  const auto claim = RankClaim::parse(text, word ? word->first : 0, word ? word->second : "");
  if (!claim) return;
  require(std::ranges::none_of(claim->who(), [](char c) { return c >= 0 && c < ' '; }));
  require(!claim->is_of_another_job(*claim));
}

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0: stoker::read_word<stoker::RankWelcome>(rest); break;
    case 1: stoker::read_word<stoker::RankRefusal>(rest); break;
    default: stoker::read_claim(rest);
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  if (size == 0) return stoker::mutate_json_input(data, size, max_size, seed, 4);
  return 1 + stoker::mutate_json_input(data + 1, size - 1, max_size - 1, seed, 4);
}
