#include "api/rank_session.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string_view>
#include <utility>

#include "api/border.h"
#include "base/blake2b.h"
#include "base/hex.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/ranks/launcher.h"

namespace stoker {
namespace internal {
namespace {

/// "boot id/namespace/pid/started"
std::string text_of(const ProcessIdentity& process) {
  return process.space + "/" + std::to_string(process.pid) + "/" + process.started;
}

/// The directory without links, so that it is the same text on all ranks.
std::string real_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(path, error);
  return error ? path : real.string();
}

std::string word_of(std::string_view text) {
  return format_hex(blake2b_128(std::as_bytes(std::span(text))));
}

}  // namespace

Status RankSessions::check() const {
  if (options_.ranks.world_size == 0 || options_.ranks.rank >= options_.ranks.world_size)
    return {Code::invalid_argument, "checkpointer: rank " + std::to_string(options_.ranks.rank) +
                                        " of " + std::to_string(options_.ranks.world_size) +
                                        ": ranks count from 0"};
  if (!std::in_range<std::uint32_t>(options_.ranks.world_size))
    return {Code::invalid_argument, "checkpointer: more than 2^32 ranks"};
  if (options_.ranks.world_size == 1) return {};
  if (options_.has_private_disks && options_.meeting.empty())
    return {Code::invalid_argument,
            "checkpointer: with private disks, meeting is a directory that all ranks can write to"};
  if (options_.job.empty() && !find_launcher("").is_known())
    return {Code::invalid_argument,
            "checkpointer: " + std::to_string(options_.ranks.world_size) +
                " ranks, and nothing says which processes they are: give job, a text that is the "
                "same on all ranks of this start and new for every start, such as "
                "job_from_environment()"};
  return {};
}

Result<std::shared_ptr<RankSession>> RankSessions::meet(const std::string& purpose,
                                                        Deadline deadline,
                                                        const WaitSink& on_wait) {
  auto session = std::make_shared<RankSession>();
  if (options_.ranks.world_size == 1) {
    session->coordinator = make_single_coordinator();
    return session;
  }
  const bool is_ours = options_.meeting.empty();
  STOKER_ASSIGN(
      CheckpointDirectory place,
      CheckpointDirectory::make(posix_file_ops(), is_ours ? options_.directory : options_.meeting));
  const ProcessIdentity launcher = options_.job.empty() ? find_launcher("") : ProcessIdentity();
  std::string text = options_.job.empty() ? "started by " + text_of(launcher) : options_.job;
  text += '\0' + purpose + '\0' + std::to_string(options_.ranks.world_size);
  // Other jobs meet there as well. Links may differ between private disks.
  if (!is_ours)
    text +=
        '\0' + (options_.has_private_disks ? options_.directory : real_path(options_.directory));
  MeetingOptions meeting{.place = std::move(place),
                         .word = word_of(text),
                         .launcher = launcher,
                         .rank = static_cast<std::uint32_t>(options_.ranks.rank),
                         .world_size = static_cast<std::uint32_t>(options_.ranks.world_size),
                         .on_wait = on_wait};
  if (options_.job.empty()) {
    meeting.siblings = [] { return find_siblings(""); };
    meeting.advice =
        ". Ranks that were not all started by one process need the same job on each of them";
  }
  meeting.attempts = &attempts_[meeting.word];
  STOKER_ASSIGN(session->meeting, Meeting::meet(meeting, deadline));
  attempts_.erase(meeting.word);
  STOKER_ASSIGN(session->coordinator, session->meeting->make_coordinator());
  return session;
}

}  // namespace internal

std::string job_from_environment() {
  struct Launcher {
    const char* rank;
    std::vector<const char*> names;
  };
  // What a launcher sets to the same values on all ranks of one start, and usually only there.
  const Launcher launchers[] = {
      {"RANK", {"TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT"}},
      {"SLURM_PROCID", {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}},
      {"OMPI_COMM_WORLD_RANK", {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
  };
  for (const Launcher& launcher : launchers) {
    if (std::getenv(launcher.rank) == nullptr) continue;
    std::string job = launcher.rank;
    bool is_known = false;
    for (const char* const name : launcher.names) {
      const char* const value = std::getenv(name);
      job.append(" ").append(value == nullptr ? "" : value);
      is_known = is_known || (value != nullptr && *value != '\0');
    }
    if (is_known) return job;
  }
  return {};
}

}  // namespace stoker
