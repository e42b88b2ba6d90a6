#include "checkpoint/toys/memory_log.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "checkpoint/manifest/names.h"

namespace stoker::testing {
namespace {

std::string key_of(std::uint64_t number) {
  std::string digits = std::to_string(number);
  return "log/" + std::string(20 - digits.size(), '0') + digits;
}

std::string text_of(const MemoryLog::Words& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : "\n") + word;
  return text;
}

MemoryLog::Words words_of(const std::string& text) {
  MemoryLog::Words words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) words.push_back(line);
  return words;
}

/// A name that no checkpoint has.
std::string free_superseded_name(const MemoryLog::State& state, std::uint64_t step,
                                 std::uint64_t generation) {
  for (std::uint32_t number = 1;; ++number) {
    std::string name = superseded_name(step, generation, number);
    if (!state.visible.contains(name) && !state.hidden.contains(name)) return name;
  }
}

void move_step(std::map<std::string, MemoryLog::Step>& from,
               std::map<std::string, MemoryLog::Step>& to, const std::string& name) {
  auto moved = from.extract(name);
  if (!moved.empty()) to.insert(std::move(moved));
}

}  // namespace

bool MemoryLog::State::is_committed(const std::string& staging) const {
  const auto is_it = [&](const auto& item) { return item.second.staging == staging; };
  return std::ranges::any_of(visible, is_it) || std::ranges::any_of(hidden, is_it);
}

void MemoryLog::apply(const Words& entry, State& state) {
  const std::string& verb = entry.at(0);
  if (verb == "lock") {
    state.holder = entry.at(1);
    state.who = entry.at(2);
  } else if (verb == "release") {
    state.holder.clear();
  } else if (verb == "commit") {  // name, generation, staging
    const std::string& name = entry.at(1);
    if (const auto before = state.visible.find(name); before != state.visible.end()) {
      const Step old = before->second;
      state.visible.erase(before);
      state.visible[free_superseded_name(state, parse_step_name(name)->step, old.generation)] = old;
    }
    state.visible[name] = {
        .staging = entry.at(3), .generation = std::stoull(entry.at(2)), .id = state.next};
  } else if (verb == "hide") {
    move_step(state.visible, state.hidden, entry.at(1));
  } else if (verb == "show") {
    move_step(state.hidden, state.visible, entry.at(1));
  } else if (verb == "drop") {
    state.hidden.erase(entry.at(1));
  } else if (verb == "abandon") {
    state.abandoned.insert(entry.at(1));
  }
  ++state.next;
}

// Listed, and not only asked for the next number: what the server has is what counts.
Result<MemoryLog::State> MemoryLog::read() {
  STOKER_ASSIGN(const std::vector<std::string> keys, bucket_->list("log/"));
  const MutexLock lock(mutex_);
  for (const std::string& key : keys) {
    if (key < key_of(known_.next)) continue;
    STOKER_ASSIGN(const MemoryBucket::Object entry, bucket_->get(key));
    apply(words_of(*entry.bytes), known_);
  }
  return known_;
}

Status MemoryLog::append(const Words& entry, const std::function<Status(const State&)>& check,
                         bool* is_sent) {
  for (;;) {  // ends: each time somebody else has got on
    STOKER_ASSIGN(const State state, read());
    STOKER_TRY(check(state));
    if (is_sent != nullptr) *is_sent = true;
    STOKER_ASSIGN(const bool is_ours, bucket_->put_if_absent(key_of(state.next), text_of(entry)));
    if (is_ours) return {};
    if (is_sent != nullptr) *is_sent = false;
  }
}

Status MemoryLog::append_as(const std::string& token, const Words& entry,
                            const std::function<Status(const State&)>& check, bool* is_sent) {
  return append(
      entry,
      [&](const State& state) {
        if (state.holder == token) return check(state);
        return Status(Code::not_found, "the lock is not held any more: " + state.who);
      },
      is_sent);
}

}  // namespace stoker::testing
