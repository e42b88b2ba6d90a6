#include "checkpoint/ranks/carried_place.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/token.h"
#include "checkpoint/ranks/meeting_words.h"

namespace stoker {
namespace {

using Verb = CarriedRequest::Verb;

constexpr char kWhole = '=';
constexpr char kCut = '#';
constexpr std::size_t kCutMax = 128;  // messages whose pieces are remembered
constexpr std::size_t kPiecesMax = 1 << 16;

std::string piece_name(const std::string& stored, std::string_view word, std::size_t number) {
  return stored + "/" + std::string(word) + "/" + std::to_string(number);
}

}  // namespace

CarriedPlace::CarriedPlace(CarriedPlaceOptions options)
    : options_(std::move(options)), unique_(make_token()) {}

Status CarriedPlace::put(const std::string& stored, std::string text, Deadline deadline) {
  return options_.carrier
      ->call({.verb = Verb::put, .names = {stored}, .text = std::move(text)}, deadline,
             options_.pause)
      .status();
}

Status CarriedPlace::publish(const std::string& name, const std::string& text, Deadline deadline) {
  if (text.size() > kMessageBytesMax)
    return Status(Code::invalid_argument, "message " + name + ": " + std::to_string(text.size()) +
                                              " bytes, more than " +
                                              std::to_string(kMessageBytesMax));
  if (std::vector<std::string> pieces = forget_cut(name); !pieces.empty())
    options_.carrier->post({.verb = Verb::remove, .names = std::move(pieces)});
  Status published = text.size() <= options_.piece_bytes
                         ? put(stored_name(name), kWhole + text, deadline)
                         : put_cut(name, text, deadline);
  if (!published.ok()) withdraw(name);  // it may arrive nevertheless
  return published;
}

Status CarriedPlace::put_cut(const std::string& name, std::string_view text, Deadline deadline) {
  std::string word;
  {
    const MutexLock lock(mutex_);
    word = unique_ + "-" + std::to_string(++serial_);
  }
  const std::size_t count = (text.size() + options_.piece_bytes - 1) / options_.piece_bytes;
  std::vector<std::string> pieces;
  for (std::size_t i = 0; i < count; ++i) pieces.push_back(piece_name(stored_name(name), word, i));
  remember_cut(name, pieces);
  for (std::size_t i = 0; i < count; ++i)
    STOKER_TRY(put(pieces[i],
                   std::string(text.substr(i * options_.piece_bytes, options_.piece_bytes)),
                   deadline));
  return put(stored_name(name), kCut + word + " " + std::to_string(count), deadline);
}

Result<CarriedPlace::Found> CarriedPlace::find_pieces(const std::string& stored,
                                                      std::string_view header, Deadline deadline) {
  const auto corrupt = [&] {
    return Status(Code::corrupt, "message " + stored + ": not the text of a rank");
  };
  const std::size_t space = header.find(' ');
  if (space == std::string_view::npos) return corrupt();
  const std::string_view word = header.substr(0, space);
  std::size_t count = 0;
  const auto [end, error] =
      std::from_chars(header.data() + space + 1, header.data() + header.size(), count);
  if (error != std::errc() || end != header.data() + header.size() || count > kPiecesMax)
    return corrupt();
  Found found{.stored = {stored}};
  for (std::size_t i = 0; i < count; ++i) {
    const std::string piece = piece_name(stored, word, i);
    STOKER_ASSIGN(
        const std::vector<std::string> texts,
        options_.carrier->call({.verb = Verb::find, .names = {piece}}, deadline, options_.pause));
    if (texts.empty()) return Found();  // it was replaced meanwhile
    if (found.text.size() + texts.front().size() > kMessageBytesMax) return corrupt();
    found.text += texts.front();
    found.stored.push_back(piece);
  }
  found.is_there = true;
  return found;
}

Result<std::vector<CarriedPlace::Found>> CarriedPlace::find_all(std::span<const std::string> names,
                                                                Deadline deadline) {
  CarriedRequest request{.verb = Verb::find};
  for (const std::string& name : names) request.names.push_back(stored_name(name));
  STOKER_ASSIGN(const std::vector<std::string> texts,
                options_.carrier->call(std::move(request), deadline, options_.pause));
  std::vector<Found> all;
  for (std::size_t i = 0; i < std::min(texts.size(), names.size()); ++i) {
    const std::string_view text = texts[i];
    const std::string stored = stored_name(names[i]);
    Found found{.stored = {stored}};
    if (text.starts_with(kWhole)) {
      found.text = text.substr(1);
      found.is_there = true;
    } else if (text.starts_with(kCut)) {
      STOKER_ASSIGN(found, find_pieces(stored, text.substr(1), deadline));
    } else {
      return Status(Code::corrupt, "message " + stored + ": not the text of a rank");
    }
    if (!found.is_there) break;
    all.push_back(std::move(found));
  }
  return all;
}

Result<std::vector<std::string>> CarriedPlace::find(std::span<const std::string> names,
                                                    Deadline deadline) {
  STOKER_ASSIGN(std::vector<Found> all, find_all(names, deadline));
  std::vector<std::string> texts;
  for (Found& found : all) texts.push_back(std::move(found.text));
  return texts;
}

Result<std::vector<std::string>> CarriedPlace::take(std::span<const std::string> names,
                                                    Deadline deadline) {
  STOKER_ASSIGN(std::vector<Found> all, find_all(names, deadline));
  std::vector<std::string> texts;
  CarriedRequest request{.verb = Verb::remove};
  for (Found& found : all) {
    texts.push_back(std::move(found.text));
    std::ranges::move(found.stored, std::back_inserter(request.names));
  }
  if (!texts.empty()) options_.carrier->post(std::move(request));
  return texts;
}

void CarriedPlace::withdraw(const std::string& name) {
  remove(name);
}

void CarriedPlace::remove(const std::string& name) {
  std::vector<std::string> names = forget_cut(name);
  names.insert(names.begin(), stored_name(name));
  options_.carrier->post({.verb = Verb::remove, .names = std::move(names)});
}

std::vector<bool> CarriedPlace::are_there(std::span<const std::string> names) {
  CarriedRequest request{.verb = Verb::check};
  for (const std::string& name : names) request.names.push_back(stored_name(name));
  const std::vector<std::string> stored = request.names;
  const auto there = options_.carrier->call(std::move(request), Clock::now(), options_.pause);
  std::vector<bool> found;
  for (const std::string& name : stored)
    found.push_back(there.ok() && std::ranges::find(*there, name) != there->end());
  return found;
}

void CarriedPlace::remember_cut(const std::string& name, std::vector<std::string> pieces) {
  const MutexLock lock(mutex_);
  cut_.emplace_back(name, std::move(pieces));
  if (cut_.size() > kCutMax) cut_.pop_front();
}

std::vector<std::string> CarriedPlace::forget_cut(const std::string& name) {
  const MutexLock lock(mutex_);
  const auto found = std::ranges::find(cut_, name, [](const auto& cut) { return cut.first; });
  if (found == cut_.end()) return {};
  std::vector<std::string> pieces = std::move(found->second);
  cut_.erase(found);
  return pieces;
}

}  // namespace stoker
