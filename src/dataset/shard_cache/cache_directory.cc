#include "dataset/shard_cache/cache_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include "io/files/directories.h"
#include "io/files/lock_file.h"
#include "io/files/publish.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::string_view kMarker = "stoker-cache";
constexpr std::string_view kMarkerText = "stoker cache 1\n";
constexpr unsigned kOwnerOnly = 0700;
/// How often a lost race for a name is tried again.
constexpr int kTries = 16;

double seconds_of(std::int64_t ns) {
  return static_cast<double>(ns) / 1e9;
}

std::int64_t wall_ns() {
  return std::chrono::duration_cast<nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Whether `path` is still the name of an open file.
bool is_name_of(FileOps& ops, const PathAt& path, int fd) {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return false;
  const Result<FileInfo> now = ops.info_of(path);
  return now.ok() && now->kind == FileKind::regular && now->inode == info.st_ino &&
         now->device == info.st_dev;
}

std::uint64_t size_of(int fd) {
  struct stat info{};
  return ::fstat(fd, &info) == 0 ? static_cast<std::uint64_t>(info.st_size) : 0;
}

/// Makes a folder and its missing parents. Not durable, as nothing is here.
Status make_folders(FileOps& ops, const std::string& path) {
  Status made = ops.mkdir(path);
  if (made.code() == Code::not_found && parent_of(path) != path) {
    STOKER_TRY(make_folders(ops, parent_of(path)));
    made = ops.mkdir(path);
  }
  return made.code() == Code::already_exists ? Status() : made;
}

/// Makes a folder of the cache; `invalid_argument` if the name is something else.
Status make_folder(FileOps& ops, const PathAt& path) {
  const Status made = ops.mkdir(path);
  if (made.code() != Code::already_exists) return made;
  STOKER_ASSIGN(const FileKind kind, ops.kind_of(path));
  if (kind == FileKind::directory) return {};
  return Status(Code::invalid_argument, path.text() + ": not a directory; remove it");
}

/// The names in a folder; none if it is not there.
Result<std::vector<DirectoryName>> names_in(FileOps& ops, const PathAt& folder) {
  Result<std::vector<DirectoryName>> names = ops.list_names(folder);
  if (names.status().code() == Code::not_found) return std::vector<DirectoryName>();
  return names;
}

}  // namespace

Result<std::unique_ptr<CacheDirectory>> CacheDirectory::open(FileOps& ops, Options options,
                                                             const UseForecast& forecast) {
  STOKER_TRY(make_folders(ops, options.path));
  std::unique_ptr<CacheDirectory> made(new CacheDirectory(ops, std::move(options), forecast));
  STOKER_TRY(made->enter(true));
  return made;
}

Result<std::unique_ptr<CacheDirectory>> CacheDirectory::open_existing(FileOps& ops, Options options,
                                                                      const UseForecast& forecast) {
  std::unique_ptr<CacheDirectory> made(new CacheDirectory(ops, std::move(options), forecast));
  STOKER_TRY(made->enter(false));
  return made;
}

Status CacheDirectory::enter(bool may_create) {
  const std::string& path = options_.path;
  STOKER_ASSIGN(UniqueFd fd, ops_.open(path, O_RDONLY | O_DIRECTORY));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "fstat", path);
  if (info.st_uid != ::geteuid())
    return Status(Code::denied, path +
                                    ": belongs to another user; a cache needs a directory of "
                                    "its own user");
  const bool is_open_to_others = (info.st_mode & 077) != 0;
  root_ = std::make_shared<const RootDirectory>(RootDirectory{.path = path, .fd = std::move(fd)});
  STOKER_TRY(check_marker(may_create));
  if (is_open_to_others) STOKER_TRY(ops_.fchmod(root_->fd.get(), kOwnerOnly).with_context(path));
  for (const char* const name : {"chunks", "new", "orders"})
    STOKER_TRY(make_folder(ops_, {root_, name}));
  STOKER_TRY(make_ledger_valid());
  // This process learns which chunks there are, without keeping the others waiting.
  return count_files().status();
}

Status CacheDirectory::make_ledger_valid() {
  // Another process may be counting the files of a large cache.
  constexpr nanoseconds kCountTimeout{60'000'000'000};
  Result<CacheLedger> ledger =
      CacheLedger::lock(ops_, ledger_path(), deadline_after(kCountTimeout));
  if (!ledger.ok()) return ledger.status().with_context("the ledger of the cache");
  if (!ledger->used_bytes()) {
    STOKER_ASSIGN(const std::uint64_t counted, count_files());
    ledger->set_used_bytes(counted);
  }
  ledger->subtract(sweep_new());
  {
    MutexLock lock(mutex_);
    used_bytes_ = *ledger->used_bytes();
  }
  return std::move(*ledger).close();
}

Status CacheDirectory::check_marker(bool may_create) {
  const PathAt marker{root_, kMarker};
  const Result<std::string> text = read_text_file(ops_, marker, 256);
  if (text.ok() && *text == kMarkerText) return {};
  const bool is_begun = text.ok() && kMarkerText.starts_with(*text);  // its writer died
  if (text.ok() && !is_begun)
    return Status(Code::unsupported, options_.path + ": a cache of another version of Stoker");
  if (!text.ok() && text.status().code() != Code::not_found) return text.status();
  if (!may_create && !is_begun)
    return Status(Code::invalid_argument, options_.path + ": not a cache of Stoker");
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops_.list_names({root_, ""}));
  if (std::ranges::any_of(names, [](const auto& name) { return name.name != kMarker; }))
    return Status(Code::invalid_argument,
                  options_.path +
                      ": not empty and not a cache of Stoker; name an empty or a new "
                      "directory");
  // Of several processes that create a cache, all write the same.
  STOKER_ASSIGN(UniqueFd fd, ops_.open(marker, O_WRONLY | O_CREAT | O_NOFOLLOW));
  return write_text(ops_, fd.get(), kMarkerText);
}

PathAt CacheDirectory::chunk_path(const ChunkId& id) const {
  const std::string name = chunk_name(id);
  return {root_, "chunks/" + name.substr(0, 2) + "/" + name};
}

PathAt CacheDirectory::new_path(const ChunkId& id) const {
  return {root_, "new/" + chunk_name(id)};
}

Result<CacheLedger> CacheDirectory::lock_ledger() {
  STOKER_ASSIGN(CacheLedger ledger,
                CacheLedger::lock(ops_, ledger_path(), deadline_after(options_.lock_timeout)));
  if (!ledger.used_bytes()) {
    STOKER_ASSIGN(const std::uint64_t counted, count_files());
    ledger.set_used_bytes(counted);
  }
  return ledger;
}

Result<std::vector<CacheDirectory::Chunk>> CacheDirectory::list() const {
  std::vector<Chunk> chunks;
  STOKER_ASSIGN(const std::vector<DirectoryName> folders, names_in(ops_, {root_, "chunks"}));
  for (const DirectoryName& folder : folders) {
    const PathAt path{root_, "chunks/" + folder.name};
    if (folder.kind != FileKind::directory) continue;
    STOKER_ASSIGN(const std::vector<DirectoryName> names, names_in(ops_, path));
    for (const DirectoryName& name : names) {
      const std::optional<ChunkId> id = parse_chunk_name(name.name);
      if (!id || !name.name.starts_with(folder.name)) continue;
      const Result<FileInfo> info = ops_.info_of(path / name.name);
      if (info.status().code() == Code::not_found) continue;  // evicted meanwhile
      if (!info.ok()) return info.status();
      chunks.push_back(
          {.id = *id, .file_bytes = info->size_bytes, .modified_ns = info->modified_ns});
    }
  }
  return chunks;
}

/// Counts the bytes of all files, and enters the chunks into the table. The count is exact if the
/// ledger is locked. Fetches end without it: a file that moves from new/ to chunks/ meanwhile is
/// seen there, because new/ is listed first.
Result<std::uint64_t> CacheDirectory::count_files() {
  std::uint64_t bytes = 0;
  std::set<ChunkId> fetching;
  STOKER_ASSIGN(const std::vector<DirectoryName> names, names_in(ops_, {root_, "new"}));
  for (const DirectoryName& name : names) {
    const Result<FileInfo> info = ops_.info_of(PathAt{root_, "new"} / name.name);
    if (!info.ok()) continue;
    bytes += info->size_bytes;
    // An empty one reserves nothing; the chunk may be there, as another file.
    const std::optional<ChunkId> id = parse_chunk_name(name.name);
    if (id && info->size_bytes > 0) fetching.insert(*id);
  }
  STOKER_ASSIGN(const std::vector<Chunk> chunks, list());
  const std::int64_t wall = wall_ns();
  MutexLock lock(mutex_);
  table_.clear();
  for (const Chunk& chunk : chunks) {
    table_.put(chunk.id, forecast_.now() - std::max(0.0, seconds_of(wall - chunk.modified_ns)));
    if (!fetching.contains(chunk.id)) bytes += chunk.file_bytes;
  }
  return bytes;
}

/// Removes the files of fetchers that died, and returns their bytes. The ledger is locked.
std::uint64_t CacheDirectory::sweep_new() {
  const Result<std::vector<DirectoryName>> names = names_in(ops_, {root_, "new"});
  if (!names.ok()) return 0;
  std::uint64_t removed = 0;
  for (const DirectoryName& name : *names) {
    const PathAt path = PathAt{root_, "new"} / name.name;
    if (name.kind != FileKind::regular) continue;
    Result<UniqueFd> fd = ops_.open(path, O_RDWR | O_NOFOLLOW | O_NONBLOCK);
    if (!fd.ok()) continue;
    const ForkClosedFd file(*std::move(fd));
    if (!ops_.try_lock(file.get(), LockMode::exclusive).ok() || !is_name_of(ops_, path, file.get()))
      continue;
    const std::uint64_t bytes = size_of(file.get());
    if (ops_.unlink(path).ok()) removed += bytes;
  }
  return removed;
}

Result<ChunkFile> CacheDirectory::find(const ChunkId& id) {
  Result<ChunkFile> chunk = ChunkFile::open(ops_, chunk_path(id), id);
  if (chunk.status().code() == Code::corrupt) static_cast<void>(remove(id));
  return chunk;
}

void CacheDirectory::touch(const ChunkFile& chunk) {
  constexpr double kOthersLearnAfterSeconds = 30;
  const ChunkId& id = chunk.head().id;
  double before = 0;
  {
    MutexLock lock(mutex_);
    const std::optional<double> used_at = table_.touch(id);
    if (!used_at) table_.put(id, forecast_.now());  // another process has fetched it
    before = used_at.value_or(0);
    if (forecast_.now() - before < kOthersLearnAfterSeconds) return;
  }
  ::futimens(chunk.fd(), nullptr);  // if it fails, others take the chunk for less used
}

/// Whether room could be made, by what this process knows: saves the files of a fetch that would be
/// refused.
bool CacheDirectory::is_room_likely(const ChunkId& id) {
  const std::uint64_t wanted = chunk_file_bytes(id);
  if (wanted > options_.limit_bytes) return false;
  MutexLock lock(mutex_);
  if (used_bytes_ + wanted <= options_.limit_bytes) return true;
  const std::optional<ChunkTable::Due> worst = table_.worst();
  if (!worst || worst->at > table_.due_after_reads(id)) return true;
  // Others may have removed chunks: it is tried now and then.
  constexpr std::uint64_t kTryEvery = 64;
  return ++refused_ % kTryEvery == 0;
}

Result<CacheDirectory::Begin> CacheDirectory::begin(const ChunkId& id, ChunkFetch& out) {
  if (!is_room_likely(id)) return Begin::no_room;
  const PathAt path = new_path(id);
  for (int i = 0; i < kTries; ++i) {
    STOKER_ASSIGN(UniqueFd fd, open_lock_file(ops_, path));
    out.id_ = id;
    out.fd_ = std::make_unique<ForkClosedFd>(std::move(fd));
    const Status locked = ops_.try_lock(out.fd_->get(), LockMode::exclusive);
    if (locked.code() == Code::unavailable) return Begin::busy;
    STOKER_TRY(locked);
    // The file may have been published or removed between the two calls.
    if (!is_name_of(ops_, path, out.fd_->get())) continue;
    Result<Begin> begun = reserve(id, out.fd_->get());
    if (!begun.ok() || *begun != Begin::fetch) give_up(std::exchange(out, ChunkFetch()));
    return begun;
  }
  return Begin::busy;
}

/// Step 2 of a fetch, with the file locked.
Result<CacheDirectory::Begin> CacheDirectory::reserve(const ChunkId& id, int fd) {
  if (ops_.info_of(chunk_path(id)).ok()) return Begin::present;
  const std::uint64_t wanted = chunk_file_bytes(id);
  STOKER_ASSIGN(CacheLedger ledger, lock_ledger());
  const std::uint64_t left_over = size_of(fd);  // by a fetcher that died
  ledger.subtract(left_over);
  STOKER_TRY(ops_.ftruncate(fd, 0));
  STOKER_ASSIGN(const bool has_room, make_room(ledger, id, wanted));
  if (has_room) {
    // Allocated and not only promised, so that a full disk is noticed now.
    const Status allocated = ops_.fallocate(fd, wanted);
    if (allocated.code() == Code::unsupported) {
      STOKER_TRY(ops_.ftruncate(fd, wanted));
    } else {
      STOKER_TRY(allocated);
    }
    ledger.add(wanted);
  }
  {
    MutexLock lock(mutex_);
    used_bytes_ = *ledger.used_bytes();
  }
  STOKER_TRY(std::move(ledger).close());
  return has_room ? Begin::fetch : Begin::no_room;
}

/// Evicts until `wanted_bytes` fit; false if the chunks that would have to go are needed sooner
/// than the new one.
Result<bool> CacheDirectory::make_room(CacheLedger& ledger, const ChunkId& id,
                                       std::uint64_t wanted_bytes) {
  bool was_counted = false;
  while (*ledger.used_bytes() + wanted_bytes > options_.limit_bytes) {
    std::optional<ChunkTable::Due> worst;
    double due = 0;
    {
      MutexLock lock(mutex_);
      worst = table_.worst();
      due = table_.due_after_reads(id);
    }
    if (worst && worst->at <= due) return false;
    if (worst) {
      STOKER_TRY(evict(ledger, *worst));
      continue;
    }
    // The files are of others, or of the dead.
    if (was_counted) return false;
    was_counted = true;
    STOKER_ASSIGN(const std::uint64_t counted, count_files());
    const std::uint64_t swept = sweep_new();
    ledger.set_used_bytes(counted - std::min(counted, swept));
  }
  return true;
}

/// Removes a chunk, or learns that another process has used it since.
Status CacheDirectory::evict(CacheLedger& ledger, const ChunkTable::Due& worst) {
  const PathAt path = chunk_path(worst.id);
  const Result<FileInfo> info = ops_.info_of(path);
  if (!info.ok() && info.status().code() != Code::not_found) return info.status();
  if (info.ok()) {
    {
      MutexLock lock(mutex_);
      const double now = forecast_.now();
      const double used_at = now - seconds_of(wall_ns() - info->modified_ns);
      const bool was_used = 2 * now - used_at < worst.at - 1;
      if (was_used && !forecast_.next_use(worst.id)) {
        table_.put(worst.id, used_at);
        return {};
      }
    }
    // Truncated first: its room must be free even while another process has it open. A read there
    // finds the end of the file, and fetches the chunk again.
    if (Result<UniqueFd> fd = ops_.open(path, O_WRONLY | O_NOFOLLOW | O_NONBLOCK); fd.ok())
      STOKER_TRY(ops_.ftruncate(fd->get(), 0));
    const Status removed = ops_.unlink(path);
    if (!removed.ok() && removed.code() != Code::not_found) return removed;
    ledger.subtract(info->size_bytes);
  }
  MutexLock lock(mutex_);
  evicted_ += info.ok() ? 1 : 0;
  table_.erase(worst.id);
  return {};
}

Status CacheDirectory::commit(ChunkFetch fetch, std::string_view identity,
                              std::span<const std::byte> body) {
  const ChunkId& id = fetch.id_;
  const PathAt to = chunk_path(id);
  Status status = write_chunk(ops_, fetch.fd_->get(), id, identity, body);
  if (status.ok()) status = ops_.rename(new_path(id), to);
  if (status.code() == Code::not_found) {
    status = make_folder(ops_, to.parent());
    if (status.ok()) status = ops_.rename(new_path(id), to);
  }
  if (!status.ok()) {
    give_up(fetch);
    return status;
  }
  MutexLock lock(mutex_);
  table_.put(id, forecast_.now());
  return {};
}

void CacheDirectory::abandon(ChunkFetch fetch) {
  give_up(fetch);
}

/// Removes the file of a fetch that is still locked. If that fails it stays as what a dead fetcher
/// leaves.
void CacheDirectory::give_up(const ChunkFetch& fetch) {
  if (fetch.fd_ == nullptr) return;
  const std::uint64_t bytes = size_of(fetch.fd_->get());
  if (bytes == 0) {
    static_cast<void>(ops_.unlink(new_path(fetch.id_)));
    return;
  }
  Result<CacheLedger> ledger = lock_ledger();
  if (!ledger.ok()) return;
  if (ops_.unlink(new_path(fetch.id_)).ok()) ledger->subtract(bytes);
  static_cast<void>(std::move(*ledger).close());
}

Status CacheDirectory::remove(const ChunkId& id) {
  STOKER_ASSIGN(CacheLedger ledger, lock_ledger());
  const Result<FileInfo> info = ops_.info_of(chunk_path(id));
  if (info.ok()) {
    // Not a file: somebody has planted it.
    const Status removed = info->kind == FileKind::directory ? remove_tree(ops_, chunk_path(id))
                                                             : ops_.unlink(chunk_path(id));
    if (removed.ok()) ledger.subtract(info->size_bytes);
  }
  {
    MutexLock lock(mutex_);
    table_.erase(id);
    used_bytes_ = *ledger.used_bytes();
  }
  return std::move(ledger).close();
}

Status CacheDirectory::clear() {
  STOKER_ASSIGN(CacheLedger ledger, lock_ledger());
  STOKER_ASSIGN(const std::vector<Chunk> chunks, list());
  Status first;
  for (const Chunk& chunk : chunks) {
    const Status removed = ops_.unlink(chunk_path(chunk.id));
    if (first.ok() && removed.code() != Code::not_found) first = removed;
  }
  sweep_new();
  STOKER_ASSIGN(const std::uint64_t counted, count_files());
  ledger.set_used_bytes(counted);
  {
    MutexLock lock(mutex_);
    used_bytes_ = counted;
  }
  const Status closed = std::move(ledger).close();
  return first.ok() ? closed : first;
}

std::uint64_t CacheDirectory::used_bytes() const {
  MutexLock lock(mutex_);
  return used_bytes_;
}

std::uint64_t CacheDirectory::evicted() const {
  MutexLock lock(mutex_);
  return evicted_;
}

}  // namespace stoker
