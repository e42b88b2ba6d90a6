#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <thread>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "io/engine/engine.h"
#include "observe/machine.h"
#include "observe/read_timing.h"

namespace stoker {
namespace {

constexpr std::size_t kTextMax = std::size_t{1} << 20;

/// Appends one read(2) to `text`, which stops growing at kTextMax. Returns the result of read(2).
ssize_t read_some(int fd, std::string& text) {
  std::array<char, 16384> chunk;
  const ssize_t count = ::read(fd, chunk.data(), chunk.size());
  if (count > 0)
    text.append(chunk.data(), std::min(static_cast<std::size_t>(count), kTextMax - text.size()));
  return count;
}

DirectoryEntry::Kind kind_of(const std::string& directory, const dirent& entry) {
  if (entry.d_type == DT_REG) return DirectoryEntry::Kind::file;
  if (entry.d_type == DT_DIR) return DirectoryEntry::Kind::directory;
  if (entry.d_type != DT_UNKNOWN) return DirectoryEntry::Kind::other;
  struct stat info{};  // some filesystems report the type only through lstat
  if (::lstat((directory + "/" + entry.d_name).c_str(), &info) != 0)
    return DirectoryEntry::Kind::other;
  if (S_ISREG(info.st_mode)) return DirectoryEntry::Kind::file;
  return S_ISDIR(info.st_mode) ? DirectoryEntry::Kind::directory : DirectoryEntry::Kind::other;
}

/// A program in its own process group, so that a timeout also kills its children.
class ChildProcess {
 public:
  /// `output` becomes the child's standard output; standard input and error are /dev/null.
  static Result<ChildProcess> start(const std::vector<std::string>& argv, int output) {
    std::vector<char*> pointers;
    pointers.reserve(argv.size() + 1);
    for (const std::string& word : argv) pointers.push_back(const_cast<char*>(word.c_str()));
    pointers.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    pid_t pid = -1;
    const int error =
        ::posix_spawnp(&pid, pointers[0], &actions, &attributes, pointers.data(), environ);
    ::posix_spawnattr_destroy(&attributes);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0) return Status::from_errno(error, "run", argv[0]);
    return ChildProcess(pid);
  }

  void kill() const { ::kill(-pid_, SIGKILL); }

  /// Returns the wait status; nullopt if the child still runs at `deadline`. A child in an
  /// uninterruptible sleep (a dead file server) survives even SIGKILL, and must not block us.
  std::optional<int> wait(Deadline deadline) const {
    for (int status = 0;;) {
      const pid_t done = ::waitpid(pid_, &status, WNOHANG);
      if (done == pid_) return status;
      if ((done < 0 && errno != EINTR) || Clock::now() >= deadline) return std::nullopt;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  explicit ChildProcess(pid_t pid) : pid_(pid) {}
  pid_t pid_;
};

class HostMachine final : public Machine {
 public:
  Result<std::string> read_text(const std::string& path) override {
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return Status::from_errno(errno, "open", path);
    std::string text;
    while (text.size() < kTextMax) {
      const ssize_t count = read_some(fd.get(), text);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && text.empty()) return Status::from_errno(errno, "read", path);
      if (count <= 0) break;
    }
    return text;
  }

  Result<std::vector<DirectoryEntry>> list(const std::string& path,
                                           std::size_t count_max) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir(path.c_str()), ::closedir);
    if (!directory) return Status::from_errno(errno, "opendir", path);
    std::vector<DirectoryEntry> entries;
    while (entries.size() < count_max) {
      const dirent* entry = ::readdir(directory.get());
      if (entry == nullptr) break;
      const std::string_view name(entry->d_name);
      if (name != "." && name != "..")
        entries.push_back({.name = std::string(name), .kind = kind_of(path, *entry)});
    }
    std::sort(entries.begin(), entries.end(),
              [](const DirectoryEntry& a, const DirectoryEntry& b) { return a.name < b.name; });
    return entries;
  }

  Result<std::string> read_link(const std::string& path) override {
    std::array<char, PATH_MAX> target;
    const ssize_t count = ::readlink(path.c_str(), target.data(), target.size());
    if (count < 0) return Status::from_errno(errno, "readlink", path);
    return std::string(target.data(), static_cast<std::size_t>(count));
  }

  Result<std::string> resolve(const std::string& path) override {
    const std::unique_ptr<char, void (*)(void*)> real(::realpath(path.c_str(), nullptr), ::free);
    if (!real) return Status::from_errno(errno, "resolve", path);
    return std::string(real.get());
  }

  Result<VolumeStats> volume(const std::string& path) override {
    struct statfs raw{};
    if (::statfs(path.c_str(), &raw) != 0) return Status::from_errno(errno, "statfs", path);
    // f_type is signed, and sign-extended for numbers such as that of CIFS: only 32 bits are valid.
    return VolumeStats{.type_magic = static_cast<std::uint32_t>(raw.f_type),
                       .block_bytes = static_cast<std::uint64_t>(raw.f_bsize),
                       .blocks_total = raw.f_blocks,
                       .blocks_available = raw.f_bavail,
                       .inodes_total = raw.f_files,
                       .inodes_free = raw.f_ffree};
  }

  Result<PathInfo> stat(const std::string& path) override {
    struct stat raw{};
    if (::lstat(path.c_str(), &raw) != 0) return Status::from_errno(errno, "stat", path);
    return PathInfo{.device_major = major(raw.st_dev),
                    .device_minor = minor(raw.st_dev),
                    .is_directory = S_ISDIR(raw.st_mode),
                    .is_file = S_ISREG(raw.st_mode),
                    .size_bytes = static_cast<std::uint64_t>(raw.st_size)};
  }

  Result<ReadTiming> time_reads(const std::string& path) override {
    return time_random_reads(path);
  }

  ResourceLimit limit(Resource resource) override {
    rlimit raw{};
    const bool memory = resource == Resource::locked_memory;
    if (::getrlimit(memory ? RLIMIT_MEMLOCK : RLIMIT_NOFILE, &raw) != 0) return {};
    static_assert(RLIM_INFINITY == ResourceLimit::kUnlimited);
    return {.soft = raw.rlim_cur, .hard = raw.rlim_max};
  }

  UringState uring() override {
    EngineChoice choice = probe_engine();
    return {.works = choice.kind == EngineKind::uring, .reason = std::move(choice.reason)};
  }

  bool is_root() override { return ::geteuid() == 0; }

  Result<CommandResult> run(const std::vector<std::string>& argv, milliseconds timeout) override {
    if (argv.empty()) return Status(Code::invalid_argument, "run: no command");
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) return Status::from_errno(errno, "pipe", argv[0]);
    const UniqueFd reader(ends[0]);
    UniqueFd writer(ends[1]);
    STOKER_ASSIGN(const ChildProcess child, ChildProcess::start(argv, writer.get()));
    writer = UniqueFd();  // so that the pipe ends when the child closes its copy

    const Deadline deadline = deadline_after(timeout);
    CommandResult result;
    for (bool more = true; more && Clock::now() < deadline;) {
      const auto left = std::chrono::ceil<milliseconds>(time_left(deadline)).count();
      pollfd ready{.fd = reader.get(), .events = POLLIN, .revents = 0};
      if (::poll(&ready, 1, static_cast<int>(std::min<std::int64_t>(left, INT_MAX))) > 0)
        more = read_some(reader.get(), result.output) > 0;
    }
    std::optional<int> status = child.wait(deadline);
    if (!status) {
      child.kill();
      static_cast<void>(child.wait(deadline_after(milliseconds(200))));  // reaps it if possible
      return Status(Code::unavailable, argv[0] + " did not answer in time");
    }
    result.exit_code = WIFEXITED(*status) ? WEXITSTATUS(*status) : 128 + WTERMSIG(*status);
    return result;
  }
};

}  // namespace

std::unique_ptr<Machine> make_host_machine() {
  return std::make_unique<HostMachine>();
}

}  // namespace stoker
