#include "checkpoint/ranks/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>

#include "checkpoint/directory/lock_record.h"

namespace stoker {
namespace {

std::string read_proc(std::int64_t pid, const char* name) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/" + name);
  std::string text;
  std::array<char, 4096> part{};
  // With read(), because an iterator over the buffer throws if the process has ended meanwhile.
  while (file.read(part.data(), part.size()), file.gcount() > 0)
    text.append(part.data(), static_cast<std::size_t>(file.gcount()));
  return text;
}

std::string link_of(std::int64_t pid, const char* name) {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/" + name, error).string();
}

struct ProcessState {
  char state = 0;  ///< 'Z': a zombie, which has ended.
  std::int64_t parent = 0;
  std::string started;  ///< Start time in clock ticks since boot.
};

/// Parses /proc/PID/stat: "PID (name) state parent ..."; the name may contain any character.
std::optional<ProcessState> state_of(std::int64_t pid) {
  constexpr int kStateField = 0;  // fields after the name, counted from 0
  constexpr int kParentField = 1;
  constexpr int kStartedField = 19;
  const std::string text = read_proc(pid, "stat");
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(name_end + 1);
  ProcessState state;
  for (int field = 0; field <= kStartedField; ++field) {
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    const std::string_view word = rest.substr(0, rest.find(' '));
    if (field == kStateField && !word.empty()) state.state = word.front();
    if (field == kParentField)
      std::from_chars(word.data(), word.data() + word.size(), state.parent);
    if (field == kStartedField) state.started = word;
    rest.remove_prefix(word.size());
  }
  return state.started.empty() ? std::nullopt : std::optional(state);
}

/// Returns a variable of a process's initial environment; nothing if it is not set, or the process
/// belongs to another user.
std::optional<std::string> variable_of(std::int64_t pid, const std::string& name) {
  const std::string text = read_proc(pid, "environ");
  const std::string begin = name + "=";
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\0', at), text.size());
    const std::string_view entry = std::string_view(text).substr(at, end - at);
    if (entry.starts_with(begin)) return std::string(entry.substr(begin.size()));
    at = end + 1;
  }
  return std::nullopt;
}

/// The first process of a machine or container, which adopts orphans.
constexpr std::int64_t kInit = 1;

/// Whether a parent can be the launcher. In a container the first process often is; it then runs
/// the same program as this one, unlike an init.
bool is_launcher(std::int64_t pid) {
  if (pid != kInit) return pid > 0;
  const std::string own = link_of(::getpid(), "exe");
  return !own.empty() && link_of(kInit, "exe") == own;
}

std::optional<std::int64_t> launcher_pid(const std::string& rank_variable) {
  constexpr int kAncestorsMax = 16;
  const std::optional<std::string> own =
      rank_variable.empty() ? std::nullopt : variable_of(::getpid(), rank_variable);
  std::int64_t pid = ::getpid();
  for (int i = 0; i < kAncestorsMax; ++i) {
    const std::optional<ProcessState> state = state_of(pid);
    if (!state || !is_launcher(state->parent)) return std::nullopt;
    pid = state->parent;
    if (!own || variable_of(pid, rank_variable) != own) return pid;
  }
  return std::nullopt;
}

/// Returns the identity of a process in our own PID namespace.
ProcessIdentity identity_of(std::int64_t pid) {
  const std::optional<ProcessState> state = state_of(pid);
  if (!state) return {};
  return {.space = this_machine().boot_id + "/" + link_of(::getpid(), "ns/pid"),
          .pid = pid,
          .started = state->started};
}

/// Whether it is a helper process of Python's multiprocessing.
bool is_tracker(std::int64_t pid) {
  const std::string line = read_proc(pid, "cmdline");
  constexpr std::array kNames = {"multiprocessing.resource_tracker",
                                 "multiprocessing.semaphore_tracker", "multiprocessing.forkserver"};
  return std::ranges::any_of(
      kNames, [&](const char* name) { return line.find(name) != std::string::npos; });
}

}  // namespace

ProcessIdentity this_process() {
  return identity_of(::getpid());
}

bool has_ended(const ProcessIdentity& process) {
  if (!process.is_known() || process.space != this_process().space) return false;
  const std::optional<ProcessState> state = state_of(process.pid);
  return !state || state->started != process.started || state->state == 'Z';
}

ProcessIdentity find_launcher(const std::string& rank_variable) {
  const std::optional<std::int64_t> pid = launcher_pid(rank_variable);
  return pid ? identity_of(*pid) : ProcessIdentity();
}

std::vector<std::int64_t> find_siblings(const std::string& rank_variable) {
  std::vector<std::int64_t> siblings;
  const std::optional<std::int64_t> launcher = launcher_pid(rank_variable);
  const std::string own = link_of(::getpid(), "exe");
  if (!launcher || own.empty()) return siblings;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const std::string name = entry.path().filename().string();
    std::int64_t pid = 0;
    const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), pid);
    if (bad != std::errc() || end != name.data() + name.size() || pid == ::getpid()) continue;
    const std::optional<ProcessState> state = state_of(pid);
    if (!state || state->parent != *launcher || link_of(pid, "exe") != own || is_tracker(pid))
      continue;
    if (rank_variable.empty() || variable_of(pid, rank_variable)) siblings.push_back(pid);
  }
  return siblings;
}

}  // namespace stoker
