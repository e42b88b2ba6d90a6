#include "checkpoint/coordinator.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "checkpoint/names.h"
#include "checkpoint/text_file.h"

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
  Result<std::string> broadcast(const std::string& /*key*/, const std::string& text,
                                Deadline /*deadline*/) override {
    return text;
  }
};

class SharedDirectoryCoordinator final : public Coordinator {
 public:
  SharedDirectoryCoordinator(FileOps& ops, SharedDirectoryOptions options)
      : ops_(ops),
        options_(std::move(options)),
        directory_(options_.directory + "/" + owner_name(options_.session)) {}

  std::uint32_t rank() const noexcept override { return options_.rank; }
  std::uint32_t world_size() const noexcept override { return options_.world_size; }
  std::string lock_token() const override { return options_.session; }

  Result<std::vector<std::string>> gather(const std::string& key, const std::string& text,
                                          Deadline deadline) override;
  Result<std::string> broadcast(const std::string& key, const std::string& text,
                                Deadline deadline) override;

 private:
  /// Messages of rank 0 stay until so many later ones: by then everybody has read them.
  static constexpr std::size_t kKept = 64;
  static constexpr std::size_t kMessageBytesMax = std::size_t{16} << 20;

  std::string path_of(const std::string& key, std::uint32_t rank) const {
    return directory_ + "/message-" + key + "-" + std::to_string(rank);
  }
  /// Tries until it does not find `not_found`, or the deadline has passed.
  template <typename Try>
  Status poll(Deadline deadline, std::uint32_t missing_rank, Try&& attempt);
  Status publish(const std::string& key, const std::string& text, Deadline deadline);
  void forget(std::string path);

  FileOps& ops_;
  const SharedDirectoryOptions options_;
  const std::string directory_;
  Mutex mutex_;
  std::deque<std::string> published_ STOKER_GUARDED_BY(mutex_);
};

template <typename Try>
Status SharedDirectoryCoordinator::poll(Deadline deadline, std::uint32_t missing_rank,
                                        Try&& attempt) {
  constexpr nanoseconds kPauseMax = milliseconds(100);
  for (nanoseconds pause = milliseconds(1);; pause = std::min(pause * 2, kPauseMax)) {
    Status status = attempt();
    if (status.code() != Code::not_found) return status;
    if (Clock::now() >= deadline)
      return Status(Code::unavailable, "rank " + std::to_string(missing_rank) +
                                           " did not answer in time in " + options_.directory);
    const nanoseconds time = std::min(pause, time_left(deadline));
    if (options_.pause)
      STOKER_TRY(options_.pause(time));
    else
      std::this_thread::sleep_for(time);
  }
}

// Rank 0 makes the directory when it has the lock: until then the others wait here.
Status SharedDirectoryCoordinator::publish(const std::string& key, const std::string& text,
                                           Deadline deadline) {
  return poll(deadline, 0, [&] { return publish_message(ops_, path_of(key, rank()), text); });
}

Result<std::vector<std::string>> SharedDirectoryCoordinator::gather(const std::string& key,
                                                                    const std::string& text,
                                                                    Deadline deadline) {
  if (rank() != 0) {
    STOKER_TRY(publish(key, text, deadline).with_context("gather " + key));
    return std::vector<std::string>();
  }
  std::vector<std::string> texts{text};
  for (std::uint32_t other = 1; other < world_size(); ++other) {
    const std::string path = path_of(key, other);
    std::string heard;
    STOKER_TRY(poll(deadline, other, [&]() -> Status {
                 STOKER_ASSIGN(heard, read_text_file(ops_, path, kMessageBytesMax));
                 return {};
               }).with_context("gather " + key));
    texts.push_back(std::move(heard));
    static_cast<void>(ops_.unlink(path));  // read by nobody else
  }
  return texts;
}

Result<std::string> SharedDirectoryCoordinator::broadcast(const std::string& key,
                                                          const std::string& text,
                                                          Deadline deadline) {
  const std::string path = path_of(key, 0);
  if (rank() == 0) {
    if (world_size() == 1) return text;
    STOKER_TRY(publish_message(ops_, path, text).with_context("broadcast " + key));
    forget(path);
    return text;
  }
  std::string heard;
  STOKER_TRY(poll(deadline, 0, [&]() -> Status {
               STOKER_ASSIGN(heard, read_text_file(ops_, path, kMessageBytesMax));
               return {};
             }).with_context("broadcast " + key));
  return heard;
}

void SharedDirectoryCoordinator::forget(std::string path) {
  std::string oldest;
  {
    MutexLock lock(mutex_);
    published_.push_back(std::move(path));
    if (published_.size() > kKept) {
      oldest = std::move(published_.front());
      published_.pop_front();
    }
  }
  if (!oldest.empty()) static_cast<void>(ops_.unlink(oldest));
}

bool is_plain(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
         c == '_' || c == '.';
}

}  // namespace

std::unique_ptr<Coordinator> make_single_coordinator() {
  return std::make_unique<SingleCoordinator>();
}

Result<std::unique_ptr<Coordinator>> make_shared_directory_coordinator(
    FileOps& ops, const SharedDirectoryOptions& options) {
  if (options.world_size == 0 || options.rank >= options.world_size)
    return Status(Code::invalid_argument, "coordinator: rank " + std::to_string(options.rank) +
                                              " of " + std::to_string(options.world_size));
  if (options.session.empty() || options.session.size() > 100 ||
      !std::all_of(options.session.begin(), options.session.end(), is_plain))
    return Status(Code::invalid_argument,
                  "coordinator: a session has 1 to 100 letters, digits, '-', '_' and '.'");
  return std::unique_ptr<Coordinator>(std::make_unique<SharedDirectoryCoordinator>(ops, options));
}

}  // namespace stoker
