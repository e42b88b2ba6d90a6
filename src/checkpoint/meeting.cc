#include "checkpoint/meeting.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/lock_record.h"
#include "checkpoint/names.h"
#include "checkpoint/text_file.h"
#include "checkpoint/tree_removal.h"

namespace stoker {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;

constexpr std::size_t kMessageBytesMax = std::size_t{16} << 20;

/// What rank 0 says to all, again whenever it has heard somebody new.
struct Welcome {
  std::string session;
  std::vector<std::string> nonces;  ///< One of each rank, empty where it was not heard yet.
  std::uint32_t missing_rank = 0;   ///< The first that is not ready; 0 if all are.
  std::string failure;              ///< Why there will be no session; empty if nothing is wrong.
};

std::string format_welcome(const Welcome& welcome) {
  return json{{"session", welcome.session},
              {"nonces", welcome.nonces},
              {"missing_rank", welcome.missing_rank},
              {"failure", welcome.failure}}
      .dump();
}

/// Nothing for a text that is none; what was left by others is no error.
std::optional<Welcome> parse_welcome(std::string_view text, std::uint32_t world_size) {
  const json said = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!said.is_object() || !said.contains("nonces") || !said["nonces"].is_array() ||
      said["nonces"].size() != world_size || !said.contains("missing_rank") ||
      !said["missing_rank"].is_number_unsigned())
    return std::nullopt;
  Welcome welcome;
  welcome.missing_rank = said["missing_rank"].get<std::uint32_t>();
  for (const auto& [key, into] :
       {std::pair("session", &welcome.session), std::pair("failure", &welcome.failure)}) {
    if (!said.contains(key) || !said[key].is_string()) return std::nullopt;
    *into = said[key].get<std::string>();
  }
  for (const json& nonce : said["nonces"])
    welcome.nonces.push_back(nonce.is_string() ? nonce.get<std::string>() : std::string());
  return welcome;
}

std::string missing_text(std::uint32_t rank, const std::string& directory) {
  return "rank " + std::to_string(rank) + " did not answer in time in " + directory;
}

/// One rank's part in a meeting. Files may be swept under it by whoever takes the directory's lock,
/// and are then written again.
class Meeting {
 public:
  Meeting(FileOps& ops, const MeetingOptions& options, Deadline deadline)
      : ops_(ops),
        options_(options),
        deadline_(deadline),
        folder_(meeting_folder(options)),
        nonce_(make_token()) {}

  static std::string meeting_folder(const MeetingOptions& options) {
    return options.directory + "/" +
           owner_name("meeting-" + options.word + "-" + std::to_string(options.world_size));
  }

  Result<std::string> lead();
  Result<std::string> follow();

 private:
  std::string path_of(const char* what, std::uint32_t rank) const {
    return folder_ + "/" + what + "-" + std::to_string(rank);
  }
  /// Empty where there is nothing to read.
  std::string read(const std::string& path) {
    Result<std::string> text = read_text_file(ops_, path, kMessageBytesMax);
    return text.ok() ? *std::move(text) : std::string();
  }
  Status publish(const std::string& path, const std::string& text);
  Status pause();

  FileOps& ops_;
  const MeetingOptions& options_;
  const Deadline deadline_;
  const std::string folder_;
  const std::string nonce_;
  nanoseconds pause_ = milliseconds(1);
};

Status Meeting::publish(const std::string& path, const std::string& text) {
  Status status = publish_message(ops_, path, text);
  if (status.code() != Code::not_found) return status;
  STOKER_TRY(make_directories(ops_, folder_));
  status = publish_message(ops_, path, text);
  return status.code() == Code::not_found ? Status() : status;  // swept again: the next time
}

Status Meeting::pause() {
  const nanoseconds time = std::min(pause_, time_left(deadline_));
  pause_ = std::min<nanoseconds>(pause_ * 2, milliseconds(100));
  if (options_.pause) return options_.pause(time);
  std::this_thread::sleep_for(time);
  return {};
}

// 1. Every rank says hello with a number that it has just made up.  2. Rank 0 says the session and
// the numbers it has heard.  3. A rank that finds its own number there says that it is ready: what
// it has heard is meant for it.  4. When all are ready rank 0 makes the session's directory, which
// the others wait for. Left-overs of an earlier start have other numbers and other sessions.
Result<std::string> Meeting::lead() {
  Welcome welcome;
  welcome.session = make_token();
  welcome.nonces.resize(options_.world_size);
  welcome.nonces[0] = nonce_;
  std::vector<bool> is_ready(options_.world_size);
  is_ready[0] = true;
  for (;;) {
    for (std::uint32_t rank = 1; rank < options_.world_size; ++rank) {
      if (is_ready[rank]) continue;
      is_ready[rank] = read(path_of("ready", rank)) == welcome.session;
      if (std::string heard = read(path_of("hello", rank)); !is_ready[rank] && !heard.empty())
        welcome.nonces[rank] = std::move(heard);
    }
    const auto missing = std::find(is_ready.begin(), is_ready.end(), false);
    if (missing == is_ready.end()) return welcome.session;
    welcome.missing_rank = static_cast<std::uint32_t>(missing - is_ready.begin());
    const bool is_over = Clock::now() >= deadline_;
    if (is_over) welcome.failure = missing_text(welcome.missing_rank, options_.directory);
    const std::string text = format_welcome(welcome);
    if (read(path_of("welcome", 0)) != text) STOKER_TRY(publish(path_of("welcome", 0), text));
    if (is_over) return Status(Code::unavailable, welcome.failure);
    STOKER_TRY(pause());
  }
}

Result<std::string> Meeting::follow() {
  const std::uint32_t rank = options_.rank;
  Welcome mine;  // the last that was meant for this rank
  for (;;) {
    std::optional<Welcome> heard = parse_welcome(read(path_of("welcome", 0)), options_.world_size);
    if (heard && heard->nonces[rank] == nonce_) {
      mine = *std::move(heard);
      if (!mine.failure.empty()) return Status(Code::unavailable, mine.failure);
      if (read(path_of("ready", rank)) != mine.session)
        STOKER_TRY(publish(path_of("ready", rank), mine.session));
    } else if ((heard || mine.session.empty()) && read(path_of("hello", rank)) != nonce_) {
      // Not when all is said and swept: then the session's directory is about to be made.
      STOKER_TRY(publish(path_of("hello", rank), nonce_));
    }
    if (!mine.session.empty() &&
        ops_.kind_of(options_.directory + "/" + owner_name(mine.session)).ok())
      return mine.session;
    // Rank 0 may be waiting for somebody else.
    if (Clock::now() >= deadline_)
      return Status(
          Code::unavailable,
          missing_text(mine.missing_rank == rank ? 0 : mine.missing_rank, options_.directory));
    STOKER_TRY(pause());
  }
}

}  // namespace

Result<std::string> meet_ranks(FileOps& ops, const MeetingOptions& options, Deadline deadline) {
  if (options.world_size == 0 || options.rank >= options.world_size)
    return Status(Code::invalid_argument, "meeting: rank " + std::to_string(options.rank) + " of " +
                                              std::to_string(options.world_size));
  STOKER_TRY(make_directories(ops, options.directory));
  Meeting meeting(ops, options, deadline);
  return options.rank == 0 ? meeting.lead() : meeting.follow();
}

void clear_meeting(FileOps& ops, const MeetingOptions& options) {
  static_cast<void>(remove_tree(ops, Meeting::meeting_folder(options)));
}

}  // namespace stoker
