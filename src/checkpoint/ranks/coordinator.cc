#include "checkpoint/ranks/coordinator.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <iterator>
#include <span>
#include <string_view>
#include <thread>
#include <utility>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "checkpoint/ranks/directory_place.h"

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

class PolledCoordinator final : public Coordinator {
 public:
  PolledCoordinator(std::unique_ptr<MessagePlace> place, CoordinatorOptions options)
      : options_(std::move(options)), place_(std::move(place)) {}
  ~PolledCoordinator() override;

  std::uint32_t rank() const noexcept override { return options_.rank; }
  std::uint32_t world_size() const noexcept override { return options_.world_size; }

  Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                          Deadline deadline) override;
  void withdraw(const std::string& key) override { place_->withdraw(name_of(key, rank())); }
  Result<std::string> broadcast(const std::string& key, const std::string& text,
                                Deadline deadline) override;

 private:
  /// A message of rank 0 is removed after this many later ones: by then every rank has read it.
  static constexpr std::size_t kKept = 64;
  /// A place that is lost with a rank, whose process may take a moment longer to end.
  static constexpr int kLossLooks = 20;
  static constexpr nanoseconds kLossPause = milliseconds(50);

  using Find = Result<std::vector<std::string>> (MessagePlace::*)(std::span<const std::string>,
                                                                  Deadline);

  static std::string name_of(const std::string& key, std::uint32_t rank) {
    return key + "-" + std::to_string(rank);
  }
  /// Waits for the message of the first awaited rank. Returns messages of leading ranks, at least
  /// one.
  Result<std::vector<std::string>> await(const std::string& key,
                                         const std::vector<std::uint32_t>& awaited, Find find,
                                         Deadline deadline);
  Status pause(nanoseconds time) const;
  Status find_loss(std::uint32_t from) const;
  Status explain(const Status& failure, const std::vector<std::uint32_t>& awaited,
                 Deadline deadline) const;
  std::string missing(const std::vector<std::string>& names,
                      const std::vector<std::uint32_t>& awaited) const;
  void forget(const std::string& name);

  const CoordinatorOptions options_;
  const std::unique_ptr<MessagePlace> place_;
  ForkGuard guard_;
  Mutex mutex_;
  std::deque<std::string> published_ STOKER_GUARDED_BY(mutex_);  // by rank 0
};

PolledCoordinator::~PolledCoordinator() {
  if (!options_.removes_last || !guard_.is_here()) return;
  std::deque<std::string> last;
  {
    const MutexLock lock(mutex_);
    last.swap(published_);
  }
  for (const std::string& name : last) place_->remove(name);
}

/// Names the ranks that have not answered.
std::string PolledCoordinator::missing(const std::vector<std::string>& names,
                                       const std::vector<std::uint32_t>& awaited) const {
  const std::vector<bool> there = place_->are_there(names);
  std::vector<std::uint32_t> found;
  for (std::size_t i = 0; i < awaited.size(); ++i)
    if (i >= there.size() || !there[i]) found.push_back(awaited[i]);
  return name_ranks(found.empty() ? std::vector{awaited.front()} : found);
}

Status PolledCoordinator::pause(nanoseconds time) const {
  if (options_.pause) return options_.pause(time);
  std::this_thread::sleep_for(time);
  return {};
}

Status PolledCoordinator::find_loss(std::uint32_t from) const {
  return options_.find_loss ? options_.find_loss(from) : Status();
}

/// Returns the failure of the place, or what is behind it.
Status PolledCoordinator::explain(const Status& failure, const std::vector<std::uint32_t>& awaited,
                                  Deadline deadline) const {
  if (failure.code() != Code::unavailable) return failure;
  for (int look = 0; look < kLossLooks; ++look) {
    STOKER_TRY(find_loss(awaited.front()));
    if (!options_.find_loss || Clock::now() >= deadline) break;
    STOKER_TRY(pause(std::min(kLossPause, time_left(deadline))));
  }
  if (Clock::now() < deadline) return failure.with_context(options_.where);
  return Status(Code::unavailable, name_ranks(awaited) + " did not answer in time in " +
                                       options_.where + ": " + std::string(failure.message()));
}

Result<std::vector<std::string>> PolledCoordinator::await(const std::string& key,
                                                          const std::vector<std::uint32_t>& awaited,
                                                          Find find, Deadline deadline) {
  const std::uint32_t from = awaited.front();
  std::vector<std::string> names;
  for (const std::uint32_t other : awaited) names.push_back(name_of(key, other));
  WaitNotice notice(options_.on_wait);
  Status loss;
  for (nanoseconds time = milliseconds(1);; time = std::min(time * 2, options_.pause_max)) {
    Result<std::vector<std::string>> texts = ((*place_).*find)(names, deadline);
    if (!texts.ok()) return explain(texts.status(), awaited, deadline);
    if (!texts->empty()) return texts;
    STOKER_TRY(loss);  // checked after one more look: the rank may have answered before it ended
    if (time == options_.pause_max) {
      loss = place_->find_failure(names.front(), from);
      if (loss.ok()) loss = find_loss(from);
      if (!loss.ok()) continue;
    }
    if (Clock::now() >= deadline)
      return Status(Code::unavailable, missing(names, awaited) + " did not answer in time in " +
                                           options_.where + std::string(kRankRule));
    notice.waiting([&] {
      return "rank " + std::to_string(rank()) + " of " + std::to_string(world_size()) +
             " waits for " + missing(names, awaited) + " in " + options_.where +
             std::string(kRankRule);
    });
    STOKER_TRY(pause(std::min(time, time_left(deadline))));
  }
}

Result<std::vector<std::string>> PolledCoordinator::gather(const std::string& key,
                                                           const std::string& text,
                                                           Deadline deadline) {
  if (rank() != 0) {
    const Status sent = place_->publish(name_of(key, rank()), text, deadline);
    if (!sent.ok()) return explain(sent, {0}, deadline);
    return std::vector<std::string>();
  }
  std::vector<std::string> texts{text};
  std::vector<std::uint32_t> awaited;
  for (std::uint32_t other = 1; other < world_size(); ++other) awaited.push_back(other);
  while (!awaited.empty()) {
    STOKER_ASSIGN(std::vector<std::string> heard,
                  await(key, awaited, &MessagePlace::take, deadline));
    awaited.erase(awaited.begin(), awaited.begin() + std::ssize(heard));
    std::ranges::move(heard, std::back_inserter(texts));
  }
  return texts;
}

Result<std::string> PolledCoordinator::broadcast(const std::string& key, const std::string& text,
                                                 Deadline deadline) {
  const std::string name = name_of(key, 0);
  if (rank() == 0) {
    if (world_size() == 1) return text;
    STOKER_TRY(place_->publish(name, text, deadline));
    forget(name);
    return text;
  }
  place_->forget_failure(name);  // of an earlier call with this key
  STOKER_ASSIGN(std::vector<std::string> heard, await(key, {0}, &MessagePlace::find, deadline));
  return std::move(heard.front());
}

void PolledCoordinator::forget(const std::string& name) {
  std::string oldest;
  {
    const MutexLock lock(mutex_);
    published_.push_back(name);
    if (published_.size() > kKept) {
      oldest = std::move(published_.front());
      published_.pop_front();
    }
  }
  if (!oldest.empty()) place_->remove(oldest);
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

Result<std::unique_ptr<Coordinator>> make_coordinator(std::unique_ptr<MessagePlace> place,
                                                      const CoordinatorOptions& options) {
  if (options.world_size == 0 || options.rank >= options.world_size)
    return Status(Code::invalid_argument, "coordinator: rank " + std::to_string(options.rank) +
                                              " of " + std::to_string(options.world_size));
  return std::unique_ptr<Coordinator>(
      std::make_unique<PolledCoordinator>(std::move(place), options));
}

Result<std::unique_ptr<Coordinator>> make_shared_directory_coordinator(
    const SharedDirectoryOptions& options) {
  if (!is_plain_word(options.session) || !is_plain_word(options.word))
    return Status(
        Code::invalid_argument,
        "coordinator: a session or word must be 1 to 100 letters, digits, '-', '_' or '.'");
  return make_coordinator(
      std::make_unique<DirectoryPlace>(options.place, options.word, options.session),
      {.rank = options.rank,
       .world_size = options.world_size,
       .where = options.place.path(),
       .pause = options.pause,
       .on_wait = options.on_wait,
       .find_loss = options.find_loss});
}

}  // namespace stoker
