#include "checkpoint/ranks/directory_place.h"

#include <fcntl.h>

#include <cerrno>
#include <set>
#include <string_view>
#include <utility>

#include "base/token.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/ranks/meeting_words.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::string_view kNeed = "The ranks exchange small files, which need";

}  // namespace

DirectoryPlace::DirectoryPlace(CheckpointDirectory place, const std::string& word,
                               const std::string& session)
    : place_(std::move(place)),
      ops_(place_.ops()),
      directory_(place_.at(meeting_name(word))),
      prefix_("message-" + session + "-"),
      unique_(make_token()) {}

Status DirectoryPlace::publish(const std::string& name, const std::string& text,
                               Deadline /*deadline*/) {
  forget_failure(name);  // of an earlier call
  const Status published = try_publish(path_of(name), text);
  if (published.code() == Code::no_space)
    static_cast<void>(ops_.open(full_mark_of(name), O_WRONLY | O_CREAT | O_EXCL));
  return with_space_cure(published, kNeed);
}

// The first rank creates the directory; a rank that finds it swept creates it again.
Status DirectoryPlace::try_publish(const PathAt& path, const std::string& text) {
  std::string unique;
  {
    const MutexLock lock(mutex_);
    unique = unique_ + "-" + std::to_string(++serial_);
  }
  Status published = publish_message(ops_, path, text, unique);
  if (published.code() != Code::not_found) return published;
  Status made = ops_.mkdir(directory_);
  if (!made.ok() && made.code() != Code::already_exists) return made;
  return publish_message(ops_, path, text, unique);
}

// One at a time: each is a file of its own anyway.
Result<std::vector<std::string>> DirectoryPlace::find(std::span<const std::string> names,
                                                      Deadline /*deadline*/) {
  Result<std::string> text = read_text_file(ops_, path_of(names.front()), kMessageBytesMax);
  if (text.status().code() == Code::not_found) return std::vector<std::string>();
  if (!text.ok()) return text.status();
  return std::vector<std::string>{*std::move(text)};
}

Result<std::vector<std::string>> DirectoryPlace::take(std::span<const std::string> names,
                                                      Deadline deadline) {
  STOKER_ASSIGN(std::vector<std::string> texts, find(names, deadline));
  if (!texts.empty()) remove(names.front());
  return texts;
}

void DirectoryPlace::withdraw(const std::string& name) {
  remove(name);
  forget_failure(name);
}

void DirectoryPlace::remove(const std::string& name) {
  static_cast<void>(ops_.unlink(path_of(name)));
}

std::vector<bool> DirectoryPlace::are_there(std::span<const std::string> names) {
  const Result<std::vector<std::string>> listed = ops_.list(directory_);
  const std::set<std::string> there =
      listed.ok() ? std::set<std::string>(listed->begin(), listed->end()) : std::set<std::string>();
  std::vector<bool> found;
  for (const std::string& name : names) found.push_back(there.contains(prefix_ + name));
  return found;
}

Status DirectoryPlace::find_failure(const std::string& name, std::uint32_t from) {
  if (!ops_.info_of(full_mark_of(name)).ok()) return {};
  if (from != 0) forget_failure(name);  // the other ranks still look for a mark of rank 0
  return with_space_cure(
      Status(Code::no_space,
             "rank " + std::to_string(from) +
                 " found no space left on the device for its message in " + place_.path(),
             ENOSPC),
      kNeed);
}

void DirectoryPlace::forget_failure(const std::string& name) {
  static_cast<void>(ops_.unlink(full_mark_of(name)));
}

}  // namespace stoker
