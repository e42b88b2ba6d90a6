#include "checkpoint/ranks/coordinator.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <deque>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "base/token.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/ranks/meeting_words.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

class SingleCoordinator final : public Coordinator {
 public:
  std::uint32_t rank() const noexcept override { return 0; }
  std::uint32_t world_size() const noexcept override { return 1; }
  Result<std::vector<std::string>> gather(const std::string& /*key*/, const std::string& text,
                                          Deadline /*deadline*/) override {
    return std::vector<std::string>{text};
  }
  void withdraw(const std::string& /*key*/) override {}
  Result<std::string> broadcast(const std::string& /*key*/, const std::string& text,
                                Deadline /*deadline*/) override {
    return text;
  }
};

class SharedDirectoryCoordinator final : public Coordinator {
 public:
  explicit SharedDirectoryCoordinator(SharedDirectoryOptions options)
      : options_(std::move(options)),
        ops_(options_.place.ops()),
        directory_(options_.place.at(meeting_name(options_.word))),
        unique_(make_token()) {}

  std::uint32_t rank() const noexcept override { return options_.rank; }
  std::uint32_t world_size() const noexcept override { return options_.world_size; }

  Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                          Deadline deadline) override;
  void withdraw(const std::string& key) override {
    static_cast<void>(ops_.unlink(path_of(key, rank())));
    static_cast<void>(ops_.unlink(full_mark_of(key, rank())));
  }
  Result<std::string> broadcast(const std::string& key, const std::string& text,
                                Deadline deadline) override;

 private:
  /// A message of rank 0 is removed after this many later ones: by then every rank has read it.
  static constexpr std::size_t kKept = 64;
  static constexpr std::string_view kNeed = "The ranks exchange small files, which need";

  std::string name_of(const std::string& key, std::uint32_t rank) const {
    return "message-" + options_.session + "-" + key + "-" + std::to_string(rank);
  }
  PathAt path_of(const std::string& key, std::uint32_t rank) const {
    return directory_ / name_of(key, rank);
  }
  /// An empty file in place of a message for which the disk has no room: a name still fits where
  /// bytes do not. Without it the others would wait until their deadlines.
  PathAt full_mark_of(const std::string& key, std::uint32_t rank) const {
    return directory_ / (name_of(key, rank) + "-full");
  }
  /// Waits for the message of `from`. `awaited` are all ranks still awaited, for messages.
  Result<std::string> await(const std::string& key, std::uint32_t from,
                            const std::vector<std::uint32_t>& awaited, Deadline deadline);
  /// `no_space` if `from` has left its mark; removes it.
  Status find_full_mark(const std::string& key, std::uint32_t from);
  Status publish(const std::string& key, const std::string& text);
  Status try_publish(const std::string& key, const std::string& text);
  std::vector<std::uint32_t> missing(const std::string& key,
                                     const std::vector<std::uint32_t>& awaited);
  void forget(PathAt path);

  const SharedDirectoryOptions options_;
  FileOps& ops_;
  const PathAt directory_;
  const std::string unique_;
  Mutex mutex_;
  std::deque<PathAt> published_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t serial_ STOKER_GUARDED_BY(mutex_) = 0;
};

std::vector<std::uint32_t> SharedDirectoryCoordinator::missing(
    const std::string& key, const std::vector<std::uint32_t>& awaited) {
  const Result<std::vector<std::string>> names = ops_.list(directory_);
  const std::set<std::string> there =
      names.ok() ? std::set<std::string>(names->begin(), names->end()) : std::set<std::string>();
  std::vector<std::uint32_t> found;
  for (const std::uint32_t other : awaited)
    if (!there.contains(name_of(key, other))) found.push_back(other);
  return found;
}

Result<std::string> SharedDirectoryCoordinator::await(const std::string& key, std::uint32_t from,
                                                      const std::vector<std::uint32_t>& awaited,
                                                      Deadline deadline) {
  constexpr nanoseconds kPauseMax = milliseconds(100);
  const PathAt path = path_of(key, from);
  WaitNotice notice(options_.on_wait);
  Status loss;
  for (nanoseconds pause = milliseconds(1);; pause = std::min(pause * 2, kPauseMax)) {
    Result<std::string> text = read_text_file(ops_, path, kMessageBytesMax);
    if (text.status().code() != Code::not_found) return text;
    STOKER_TRY(loss);  // checked after one more read: the rank may have answered before it ended
    if (pause == kPauseMax) {
      loss = find_full_mark(key, from);
      if (loss.ok() && options_.find_loss) loss = options_.find_loss(from);
      if (!loss.ok()) continue;
    }
    if (Clock::now() >= deadline)
      return Status(Code::unavailable, name_ranks(missing(key, awaited)) +
                                           " did not answer in time in " + options_.place.path() +
                                           std::string(kRankRule));
    notice.waiting([&] {
      return "rank " + std::to_string(rank()) + " of " + std::to_string(world_size()) +
             " waits for " + name_ranks(missing(key, awaited)) + " in " + options_.place.path() +
             std::string(kRankRule);
    });
    const nanoseconds time = std::min(pause, time_left(deadline));
    if (options_.pause)
      STOKER_TRY(options_.pause(time));
    else
      std::this_thread::sleep_for(time);
  }
}

Status SharedDirectoryCoordinator::find_full_mark(const std::string& key, std::uint32_t from) {
  if (!ops_.info_of(full_mark_of(key, from)).ok()) return {};
  // The other ranks still look for a mark of rank 0.
  if (from != 0) static_cast<void>(ops_.unlink(full_mark_of(key, from)));
  return with_space_cure(
      Status(Code::no_space,
             "rank " + std::to_string(from) +
                 " found no space left on the device for its message in " + options_.place.path(),
             ENOSPC),
      kNeed);
}

Status SharedDirectoryCoordinator::publish(const std::string& key, const std::string& text) {
  const PathAt mark = full_mark_of(key, rank());
  static_cast<void>(ops_.unlink(mark));  // of an earlier call
  const Status published = try_publish(key, text);
  if (published.code() == Code::no_space)
    static_cast<void>(ops_.open(mark, O_WRONLY | O_CREAT | O_EXCL));
  return with_space_cure(published, kNeed);
}

// The first rank creates the directory; a rank that finds it swept creates it again.
Status SharedDirectoryCoordinator::try_publish(const std::string& key, const std::string& text) {
  std::string unique;
  {
    const MutexLock lock(mutex_);
    unique = unique_ + "-" + std::to_string(++serial_);
  }
  const PathAt path = path_of(key, rank());
  Status published = publish_message(ops_, path, text, unique);
  if (published.code() != Code::not_found) return published;
  Status made = ops_.mkdir(directory_);
  if (!made.ok() && made.code() != Code::already_exists) return made;
  return publish_message(ops_, path, text, unique);
}

Result<std::vector<std::string>> SharedDirectoryCoordinator::gather(const std::string& key,
                                                                    const std::string& text,
                                                                    Deadline deadline) {
  if (rank() != 0) {
    STOKER_TRY(publish(key, text));
    return std::vector<std::string>();
  }
  std::vector<std::string> texts{text};
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t other = 1; other < world_size(); ++other) awaited.push_back(other);
  while (!awaited.empty()) {
    const std::uint32_t other = awaited.front();
    STOKER_ASSIGN(std::string heard, await(key, other, awaited, deadline));
    texts.push_back(std::move(heard));
    static_cast<void>(ops_.unlink(path_of(key, other)));  // no other rank reads it
    awaited.erase(awaited.begin());
  }
  return texts;
}

Result<std::string> SharedDirectoryCoordinator::broadcast(const std::string& key,
                                                          const std::string& text,
                                                          Deadline deadline) {
  if (rank() == 0) {
    if (world_size() == 1) return text;
    STOKER_TRY(publish(key, text));
    forget(path_of(key, 0));
    return text;
  }
  // A mark that is here already belongs to an earlier call with this key.
  static_cast<void>(ops_.unlink(full_mark_of(key, 0)));
  return await(key, 0, {0}, deadline);
}

void SharedDirectoryCoordinator::forget(PathAt path) {
  std::optional<PathAt> oldest;
  {
    MutexLock lock(mutex_);
    published_.push_back(std::move(path));
    if (published_.size() > kKept) {
      oldest = std::move(published_.front());
      published_.pop_front();
    }
  }
  if (oldest) static_cast<void>(ops_.unlink(*oldest));
}

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.';
}

}  // namespace

bool is_plain_word(std::string_view word) noexcept {
  return !word.empty() && word.size() <= 100 && std::ranges::all_of(word, is_plain);
}

std::string name_ranks(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kShownMax = 8;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  const std::size_t shown = std::min(ranks.size(), kShownMax);
  for (std::size_t i = 0; i < shown; ++i) {
    const bool is_last = i + 1 == ranks.size() && i > 0;
    text += (i == 0 ? "" : is_last ? " and " : ", ") + std::to_string(ranks[i]);
  }
  if (shown < ranks.size()) text += " and " + std::to_string(ranks.size() - shown) + " more";
  return text;
}

std::unique_ptr<Coordinator> make_single_coordinator() {
  return std::make_unique<SingleCoordinator>();
}

Result<std::unique_ptr<Coordinator>> make_shared_directory_coordinator(
    const SharedDirectoryOptions& options) {
  if (options.world_size == 0 || options.rank >= options.world_size)
    return Status(Code::invalid_argument, "coordinator: rank " + std::to_string(options.rank) +
                                              " of " + std::to_string(options.world_size));
  if (!is_plain_word(options.session) || !is_plain_word(options.word))
    return Status(
        Code::invalid_argument,
        "coordinator: a session or word must be 1 to 100 letters, digits, '-', '_' or '.'");
  return std::unique_ptr<Coordinator>(std::make_unique<SharedDirectoryCoordinator>(options));
}

}  // namespace stoker
