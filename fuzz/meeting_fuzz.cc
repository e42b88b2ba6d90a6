// The messages of ranks in a meeting, from an arbitrary writer: claims, welcomes and refusals,
// under any names. A rank that meets there must get an error or a session; a message that is not
// meant for it must never admit it.
//
// The first byte selects the rank that meets. The rest is messages separated by NUL, each a name, a
// line break and a text; meeting_words_fuzz tests their parsers, without a meeting, which is slow.
// A file whose name starts with '!' is locked by a live process. In a message, '@' and
// '$' stand for the nonce and the session of the rank that meets; such a message is written during
// the meeting, when both are visible in the directory.
#include <fcntl.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/ranks/meeting.h"
#include "checkpoint/ranks/meeting_words.h"
#include "fuzz/json_text_mutator.h"
#include "fuzz/memory_file_ops.h"

namespace stoker {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

const std::string kFolder = ".meeting-w";
const ProcessIdentity kProcess = {.space = "boot/1", .pid = 7, .started = "8"};
const ProcessIdentity kLauncher = {.space = "boot/1", .pid = 5, .started = "6"};

struct Message {
  std::string name;
  std::string text;
  bool is_held = false;

  bool is_answer() const {
    return name.find_first_of("@$") != std::string::npos ||
           text.find_first_of("@$") != std::string::npos;
  }
};

std::vector<Message> messages_of(std::string_view input) {
  constexpr std::size_t kMessagesMax = 8;
  constexpr std::size_t kNameBytesMax = 100;
  std::vector<Message> messages;
  while (!input.empty() && messages.size() < kMessagesMax) {
    const std::string_view message = input.substr(0, input.find('\0'));
    input.remove_prefix(std::min(message.size() + 1, input.size()));
    std::string_view name = message.substr(0, message.find('\n'));
    const std::string_view text = message.substr(std::min(name.size() + 1, message.size()));
    const bool is_held = name.starts_with('!');
    if (is_held) name.remove_prefix(1);
    if (name.empty() || name.size() > kNameBytesMax || name.find('/') != std::string_view::npos)
      continue;
    messages.push_back({std::string(name), std::string(text), is_held});
  }
  return messages;
}

std::string filled_in(std::string_view text, const std::string& nonce, const std::string& session) {
  std::string filled;
  for (const char c : text) {
    if (c == '@')
      filled += nonce;
    else if (c == '$')
      filled += session;
    else
      filled += c;
  }
  return filled;
}

class Target {
 public:
  void run(std::uint8_t who, std::string_view input) {
    meet(who, input);
    ops_.clear();  // at once, or libFuzzer would suspect a leak
  }

 private:
  void meet(std::uint8_t who, std::string_view input) {
    const std::vector<Message> messages = messages_of(input);
    bool is_answered = false;
    for (const Message& message : messages) {
      if (message.is_answer())
        is_answered = true;
      else
        write(message, "", "");
    }
    const std::uint32_t rank = who % 2;
    int pauses = 0;
    const auto met =
        Meeting::meet({.place = directory_,
                       .word = "w",
                       .launcher = who % 8 < 4 ? kLauncher : ProcessIdentity(),
                       .rank = rank,
                       .world_size = 2,
                       .ttl = nanoseconds(0),
                       .pause =
                           [&](nanoseconds) {
                             if (pauses++ == 1) return Status(Code::unavailable, "nobody comes");
                             answer(messages, rank);
                             return Status();
                           },
                       .process = kProcess,
                       .settle = nanoseconds(0)},
                      is_answered ? Clock::now() + std::chrono::hours(1) : Clock::now());
    if (met.ok()) {
      require(is_answered);  // other messages cannot know the nonce or the session
      const auto coordinator = (*met)->make_coordinator();
      require(coordinator.ok() == is_plain_word((*met)->session()));
      return;
    }
    require(std::ranges::none_of(met.status().message(), [](char c) {
      const auto byte = static_cast<unsigned char>(c);
      return byte < ' ' || byte == 0x7f;
    }));
  }

  void write(const Message& message, const std::string& nonce, const std::string& session) {
    const std::string name = kFolder + "/" + filled_in(message.name, nonce, session);
    ops_.write(name, filled_in(message.text, nonce, session));
    if (!message.is_held) return;
    const Result<UniqueFd> fd = ops_.open(directory_.at(name), O_RDWR);
    require(fd.ok() && ops_.try_lock(fd->get(), LockMode::exclusive).ok());
  }

  /// Writes the messages that need the nonce or the session of the rank that meets.
  void answer(const std::vector<Message>& messages, std::uint32_t rank) {
    const auto names = ops_.list(directory_.at(kFolder));
    require(names.ok());
    std::string nonce;
    for (const std::string& name : *names) {
      const auto claim = parse_word_name(name, kClaimPrefix);
      // Ours is the claim of 32 characters that no input has named.
      const bool is_ours = claim && claim->first == rank && claim->second.size() == 32 &&
                           std::ranges::none_of(messages, [&](const Message& message) {
                             return message.name == name;
                           });
      if (is_ours) nonce = claim->second;
    }
    std::string session;
    const auto text = ops_.find(kFolder + "/" + std::string(kWelcomePrefix) + nonce);
    if (text)
      if (const auto welcome = RankWelcome::parse(*text)) session = welcome->session;
    for (const Message& message : messages)
      if (message.is_answer()) write(message, nonce, session);
  }

  MemoryFileOps ops_;
  CheckpointDirectory directory_ = ops_.directory();
};

}  // namespace
}  // namespace stoker

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static stoker::Target target;
  if (size == 0) return 0;
  target.run(data[0], std::string_view(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}

/// Changes the messages as JSON for 10 of 16 seeds, otherwise the input as bytes.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  if (size == 0) return stoker::mutate_json_input(data, size, max_size, seed, 16);
  return 1 + stoker::mutate_json_input(data + 1, size - 1, max_size - 1, seed, 6);
}
