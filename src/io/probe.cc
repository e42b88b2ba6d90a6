#include "stoker/probe.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "io/engine/arena.h"
#include "io/engine/buffer_pool.h"
#include "io/engine/engine.h"
#include "io/engine/residency.h"
#include "io/files/directories.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"
#include "io/files/filesystem.h"

namespace stoker {
namespace {

constexpr std::size_t kArenaBytes = std::size_t{4} << 20;
constexpr std::size_t kSmallBytes = 64 << 10;

/// A temporary directory inside the probed one; the destructor removes it with its contents.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> make(const std::string& parent) {
    std::string name = parent + "/.stoker-probe-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr)
      return Status::from_errno(errno, "cannot write to", parent);
    return ScratchDirectory(std::move(name));
  }
  ScratchDirectory(ScratchDirectory&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory() {
    if (!path_.empty()) static_cast<void>(remove_tree(posix_file_ops(), path_));
  }
  std::string file(const char* name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  explicit ScratchDirectory(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

void probe_engines(StorageProbe& found) {
  const EngineChoice choice = probe_engine();
  found.engine = engine_kind_name(choice.kind);
  found.engine_reason = choice.reason;
  const Result<BufferPool> pool = BufferPool::make({.budget_bytes = kArenaBytes});
  if (!pool.ok()) {
    found.huge_pages = "none";
    found.registered_buffers_reason = pool.status().message();
    return;
  }
  found.huge_pages = arena_pages_name(pool->pages());
  Result<std::unique_ptr<Engine>> engine = make_engine(choice.kind, {.depth = 2});
  const Status status = engine.ok() ? (*engine)->register_buffers(pool->memory()) : engine.status();
  found.registered_buffers = status.ok();
  found.registered_buffers_reason = status.message();
}

/// Returns how `automatic` reads a file that is not in the page cache and is long enough for the
/// trial that network filesystems need. Writes are tried separately.
Result<IoPath> probe_read_path(FileOps& ops, const ScratchDirectory& scratch, Engine& engine,
                               DirectAdvisor& advisor, bool needs_trial) {
  const std::size_t size_bytes = needs_trial ? DirectAdvisor::kReadTrialBytes : kSmallBytes;
  const std::string path = scratch.file("cold");
  {
    STOKER_ASSIGN(const MappedArena memory, MappedArena::map(size_bytes, false, true));
    STOKER_ASSIGN(File file, File::create(ops, path, {.policy = CachePolicy::buffered}));
    STOKER_ASSIGN(const Request request, file.plan_write(0, size_bytes, memory.bytes()));
    STOKER_ASSIGN(const std::size_t moved, perform(engine, request));
    static_cast<void>(moved);  // a file that is too short is read "buffered"
    STOKER_TRY(file.finish(size_bytes));
    STOKER_TRY(evict(file.buffered_fd()));
  }
  STOKER_ASSIGN(const File file, File::open(ops, path, {.advisor = &advisor}));
  STOKER_TRY(evict(file.buffered_fd()));  // drops what the trial read
  return file.read_path_for(0, size_bytes);
}

/// Writes a small file as Stoker would, and records which features worked.
Status probe_file(FileOps& ops, const ScratchDirectory& scratch, StorageProbe& found) {
  DirectAdvisor advisor;
  STOKER_ASSIGN(File file, File::create(ops, scratch.file("data"),
                                        {.policy = CachePolicy::automatic, .advisor = &advisor}));
  STOKER_ASSIGN(const FilesystemKind kind, filesystem_of(file.buffered_fd()));
  STOKER_ASSIGN(const Residency cached, residency(file.buffered_fd(), 0, 0));
  STOKER_ASSIGN(const MappedArena memory, MappedArena::map(64 << 10, false, true));
  STOKER_ASSIGN(const std::unique_ptr<Engine> engine, make_sync_engine({.depth = 1}));
  STOKER_ASSIGN(const Request request, file.plan_write(0, 5000, memory.bytes()));
  STOKER_ASSIGN(const std::size_t moved, perform(*engine, request));
  static_cast<void>(moved);
  STOKER_TRY(file.finish(5000));

  found.filesystem = kind.name;
  found.cachestat = cached.by_cachestat;
  found.direct_memory_align_bytes = file.alignment().memory_bytes;
  found.direct_offset_align_bytes = file.alignment().offset_bytes;
  found.write_path = io_path_name(file.write_path());
  STOKER_ASSIGN(const IoPath read_path,
                probe_read_path(ops, scratch, *engine, advisor, /*needs_trial=*/!kind.local_block));
  found.read_path = io_path_name(read_path);

  const Result<File> direct = File::open(ops, file.path(), {.policy = CachePolicy::direct});
  if (direct.ok()) found.direct_io = direct->read(*engine, 0, 5000, memory.bytes()).ok();
  STOKER_ASSIGN(const File dropping,
                File::open(ops, file.path(), {.policy = CachePolicy::drop_behind}));
  STOKER_TRY(evict(dropping.buffered_fd()));
  STOKER_ASSIGN(const ReadPlan plan, dropping.plan_read(0, 5000, memory.bytes()));
  found.dont_cache = plan.path == IoPath::dont_cache;
  return {};
}

void probe_names(FileOps& ops, const ScratchDirectory& scratch, StorageProbe& found) {
  found.hard_links = ops.link(scratch.file("data"), scratch.file("linked")).ok();
  found.directory_fsync = ops.fsync_dir(scratch.path()).ok();
  found.rename_noreplace = ops.mkdir(scratch.file("from")).ok() &&
                           ops.rename_noreplace(scratch.file("from"), scratch.file("to")).ok();
}

}  // namespace

Result<StorageProbe> probe(const std::string& directory) {
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0) return Status::from_errno(errno, "probe", directory);
  if (!S_ISDIR(info.st_mode))
    return Status(Code::invalid_argument, "probe " + directory + ": not a directory", ENOTDIR);
  StorageProbe found;
  found.path = directory;
  if (utsname name{}; ::uname(&name) == 0) found.kernel = name.release;
  if (rlimit limit{}; ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0)
    found.memlock_bytes = limit.rlim_cur == RLIM_INFINITY ? UINT64_MAX : limit.rlim_cur;

  STOKER_ASSIGN(const ScratchDirectory scratch, ScratchDirectory::make(directory));
  probe_engines(found);
  STOKER_TRY(probe_file(posix_file_ops(), scratch, found).with_context("probe"));
  probe_names(posix_file_ops(), scratch, found);
  return found;
}

}  // namespace stoker
