#include "io/files/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/rounding.h"
#include "io/engine/kernel_api.h"
#include "io/engine/residency.h"
#include "io/engine/transfer.h"
#include "io/files/filesystem.h"
#include "io/files/regular_file.h"

namespace stoker {
namespace {

constexpr std::uint32_t kFallbackAlignBytes = 4096;

bool is_aligned(const std::byte* address, std::uint32_t align) {
  return reinterpret_cast<std::uintptr_t>(address) % align == 0;
}

/// Repeats a call that was interrupted before it did anything. Not for fsync.
template <typename Call>
Status uninterrupted(Call&& call) {
  Status status = call();
  for (int i = 0; status.os_error() == EINTR && i < 100; ++i) status = call();
  return status;
}

/// Whether both descriptors are of the same file: a publisher may have replaced the name between
/// the two calls of open(2).
bool is_same_file(int a, int b) {
  struct stat first{};
  struct stat second{};
  return ::fstat(a, &first) == 0 && ::fstat(b, &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

/// Whether this error means that the filesystem has no O_DIRECT.
bool says_no_direct(const Status& refused) {
  return refused.os_error() == EINVAL || refused.code() == Code::unsupported;
}

/// Tries RWF_DONTCACHE with a read at the end of the file, which moves nothing: the kernel checks
/// the flag first.
bool takes_dont_cache(int fd, std::uint64_t size_bytes) {
  std::byte nothing{};
  const iovec piece{&nothing, 1};
  return ::preadv2(fd, &piece, 1, static_cast<off_t>(size_bytes), kRwfDontCache) >= 0;
}

}  // namespace

Result<DirectAlignment> direct_alignment_of(int fd) {
  KernelStatx info{};
  const long result = ::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kStatxDioAlign, &info);
  if (result != 0 || (info.mask & kStatxDioAlign) == 0)
    return DirectAlignment{kFallbackAlignBytes, kFallbackAlignBytes};
  if (info.dio_offset_align_bytes == 0)
    return Status(Code::unsupported, "the filesystem offers no direct I/O on this file");
  return DirectAlignment{info.dio_memory_align_bytes, info.dio_offset_align_bytes};
}

Result<std::span<std::byte>> ReadPlan::slice(std::int64_t result) const {
  if (result < 0) return Status::from_errno(static_cast<int>(-result), "read", "");
  if (static_cast<std::uint64_t>(result) < skip_bytes + size_bytes)
    return Status(Code::io_error,
                  "read ended at byte " +
                      std::to_string(request.offset_bytes + static_cast<std::uint64_t>(result)) +
                      ": the file was shortened while it was being read");
  return request.buffer.subspan(skip_bytes, size_bytes);
}

Status File::open_direct(int flags, const Options& options, bool for_writes) {
  if (policy_ != CachePolicy::automatic && policy_ != CachePolicy::direct) return {};
  Status refused;
  if (Result<UniqueFd> fd = ops_->open(path_, flags | O_DIRECT); !fd.ok()) {
    refused = fd.status();
  } else if (!is_same_file(buffered_.get(), fd->get())) {
    return Status(Code::unavailable,
                  "open " + path_.text() + ": the file was replaced; open it again");
  } else if (Result<DirectAlignment> found = direct_alignment_of(fd->get()); !found.ok()) {
    refused = found.status();
  } else {
    direct_ = *std::move(fd);
    alignment_ = *found;
  }
  if (policy_ == CachePolicy::direct) {
    direct_pays_ = true;
    // Another policy would not help against other errors, such as a lack of descriptors.
    if (!refused.ok() && !says_no_direct(refused)) return refused;
    return refused.ok()
               ? Status()
               : Status(Code::unsupported,
                        path_.text() + ": no direct I/O here; use the policy automatic or buffered",
                        refused.os_error());
  }
  if (!direct_) return {};
  const Result<FilesystemKind> kind = filesystem_of(buffered_.get());
  direct_pays_ = kind.ok() && kind->local_block;
  if (!direct_pays_ && options.advisor != nullptr) {
    direct_pays_ = for_writes ? options.advisor->pays_for_writes(path_.parent().text())
                              : options.advisor->pays_for_reads(buffered_.get(), direct_.get());
  }
  return {};
}

Result<File> File::open(FileOps& ops, const PathAt& path, const Options& options) {
  File file(ops, path, options);
  STOKER_ASSIGN(file.buffered_, open_regular(ops, path));
  struct stat info{};
  if (::fstat(file.buffered_.get(), &info) != 0)
    return Status::from_errno(errno, "fstat", path.text());
  file.size_bytes_ = static_cast<std::uint64_t>(info.st_size);
  file.modified_ns_ = file_info_of(info).modified_ns;
  STOKER_TRY(file.open_direct(O_RDONLY, options, /*for_writes=*/false));
  if (options.policy == CachePolicy::drop_behind)
    file.dont_cache_ =
        options.allow_dont_cache && takes_dont_cache(file.buffered_.get(), file.size_bytes_);
  return file;
}

Result<File> File::create(FileOps& ops, const PathAt& path, const Options& options) {
  File file(ops, path, options);
  STOKER_ASSIGN(file.buffered_, ops.open(path, O_RDWR | O_CREAT | O_EXCL));
  if (Status status = file.open_direct(O_RDWR, options, /*for_writes=*/true); !status.ok()) {
    static_cast<void>(ops.unlink(path));  // created above, and empty
    return status;
  }
  if (options.policy == CachePolicy::drop_behind) {
    file.dont_cache_ = options.allow_dont_cache && takes_dont_cache(file.buffered_.get(), 0);
    file.write_path_ = file.dont_cache_ ? IoPath::dont_cache : IoPath::fadvise_drop;
  } else if (file.direct_pays_) {
    file.write_path_ = IoPath::direct;
  }
  if (options.is_closed_in_children)
    file.in_children_ = {ClosedInChildren(file.buffered_.get()),
                         ClosedInChildren(file.direct_.get())};
  return file;
}

std::size_t File::scratch_bytes(std::uint64_t offset_bytes, std::size_t size_bytes) const {
  const std::uint64_t unit = alignment_.offset_bytes;
  return round_up(offset_bytes + size_bytes, unit) - round_down(offset_bytes, unit);
}

IoPath File::read_path(bool is_resident) const noexcept {
  switch (policy_) {
    case CachePolicy::buffered: return IoPath::buffered;
    case CachePolicy::direct: return IoPath::direct;
    case CachePolicy::drop_behind:
      if (dont_cache_) return IoPath::dont_cache;
      // Pages that were cached before are in use elsewhere: do not drop them.
      return is_resident ? IoPath::buffered : IoPath::fadvise_drop;
    case CachePolicy::automatic: break;
  }
  return is_resident || !direct_pays_ ? IoPath::buffered : IoPath::direct;
}

Result<IoPath> File::read_path_for(std::uint64_t offset_bytes, std::size_t size_bytes) const {
  if (read_path(true) == read_path(false)) return read_path(true);
  STOKER_ASSIGN(const Residency cached, residency(buffered_.get(), offset_bytes, size_bytes));
  const bool is_resident = policy_ == CachePolicy::drop_behind
                               ? cached.resident_bytes > 0
                               : cached.resident_bytes * 2 > cached.size_bytes;
  return read_path(is_resident);
}

Result<ReadPlan> File::plan_read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                 std::span<std::byte> memory) const {
  IoPath path = IoPath::buffered;
  if (size_bytes > 0 && offset_bytes < size_bytes_) {
    STOKER_ASSIGN(path, read_path_for(offset_bytes, size_bytes));
  }
  return plan_read(offset_bytes, size_bytes, memory, path);
}

Result<ReadPlan> File::plan_read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                 std::span<std::byte> memory, IoPath path) const {
  ReadPlan plan;
  if (size_bytes == 0 || offset_bytes >= size_bytes_) {
    plan.request = {.op = Op::read, .fd = buffered_.get(), .offset_bytes = offset_bytes};
    return plan;
  }
  plan.size_bytes = std::min<std::uint64_t>(size_bytes, size_bytes_ - offset_bytes);
  plan.path = path;
  const bool is_direct = plan.path == IoPath::direct;
  const std::uint64_t unit = is_direct ? alignment_.offset_bytes : 1;
  const std::uint64_t first = round_down(offset_bytes, unit);
  const std::uint64_t end = round_up(offset_bytes + plan.size_bytes, unit);
  if (memory.size() < end - first)
    return Status(Code::invalid_argument, "plan_read: the memory is shorter than scratch_bytes()");
  if (is_direct && !is_aligned(memory.data(), alignment_.memory_bytes))
    return Status(Code::invalid_argument, "plan_read: direct reads need aligned memory");
  plan.skip_bytes = offset_bytes - first;
  plan.request = {.op = Op::read,
                  .fd = is_direct ? direct_.get() : buffered_.get(),
                  .offset_bytes = first,
                  .buffer = memory.first(end - first),
                  .align_bytes = static_cast<std::uint32_t>(unit),
                  .dont_cache = plan.path == IoPath::dont_cache};
  return plan;
}

void File::settle(const ReadPlan& plan) const {
  if (plan.path != IoPath::fadvise_drop || plan.size_bytes == 0) return;
  // Only advice: if the kernel ignores it, the pages stay, and residency() shows them.
  static_cast<void>(::posix_fadvise(buffered_.get(), static_cast<off_t>(plan.request.offset_bytes),
                                    static_cast<off_t>(plan.request.buffer.size()),
                                    POSIX_FADV_DONTNEED));
}

Result<std::span<std::byte>> File::read(Engine& engine, std::uint64_t offset_bytes,
                                        std::size_t size_bytes, std::span<std::byte> memory) const {
  STOKER_ASSIGN(const ReadPlan plan, plan_read(offset_bytes, size_bytes, memory));
  if (plan.size_bytes == 0) return std::span<std::byte>();
  return finish_read(plan, perform(engine, plan.request));
}

Result<std::span<std::byte>> File::read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                        std::span<std::byte> memory) const {
  STOKER_ASSIGN(const ReadPlan plan, plan_read(offset_bytes, size_bytes, memory));
  if (plan.size_bytes == 0) return std::span<std::byte>();
  Transfer transfer(plan.request);
  while (!transfer.advance(call_once(transfer))) {
  }
  const std::int64_t result = transfer.completion().result;
  if (result < 0)
    return finish_read(plan, Status::from_errno(static_cast<int>(-result), "transfer", ""));
  return finish_read(plan, static_cast<std::size_t>(result));
}

Result<std::span<std::byte>> File::finish_read(const ReadPlan& plan,
                                               const Result<std::size_t>& moved) const {
  if (!moved.ok()) return moved.status().with_context("read " + path_.text());
  Result<std::span<std::byte>> bytes = plan.slice(static_cast<std::int64_t>(*moved));
  if (!bytes.ok()) return bytes.status().with_context(path_.text());
  settle(plan);
  return bytes;
}

Status File::preallocate(std::uint64_t size_bytes) {
  const Status status = uninterrupted([&] { return ops_->fallocate(buffered_.get(), size_bytes); });
  if (!status.ok() && status.code() != Code::unsupported) return status.with_context(path_.text());
  ops_->reached("file.preallocated");
  return {};
}

Result<Request> File::plan_write(std::uint64_t offset_bytes, std::size_t size_bytes,
                                 std::span<std::byte> memory) {
  const bool is_direct = write_path_ == IoPath::direct;
  const std::uint32_t unit = is_direct ? alignment_.offset_bytes : 1;
  const std::size_t padded = round_up(size_bytes, unit);
  if (offset_bytes % unit != 0)
    return Status(Code::invalid_argument,
                  "plan_write: the offset is not a multiple of the alignment");
  if (memory.size() < padded || (is_direct && !is_aligned(memory.data(), alignment_.memory_bytes)))
    return Status(Code::invalid_argument, "plan_write: the memory is too short or not aligned");
  std::memset(memory.data() + size_bytes, 0, padded - size_bytes);
  return Request{.op = Op::write,
                 .fd = is_direct ? direct_.get() : buffered_.get(),
                 .offset_bytes = offset_bytes,
                 .buffer = memory.first(padded),
                 .align_bytes = unit,
                 .dont_cache = write_path_ == IoPath::dont_cache};
}

Status File::finish(std::uint64_t size_bytes) {
  const int fd = write_path_ == IoPath::direct ? direct_.get() : buffered_.get();
  STOKER_TRY(
      uninterrupted([&] { return ops_->ftruncate(fd, size_bytes); }).with_context(path_.text()));
  ops_->reached("file.truncated");
  STOKER_TRY(ops_->fdatasync(fd).with_context(path_.text()));
  ops_->reached("file.synced");
  size_bytes_ = size_bytes;
  if (write_path_ == IoPath::fadvise_drop)
    static_cast<void>(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
  return {};
}

Status File::close() && {
  in_children_ = {};
  Status first;
  if (direct_) first = ops_->close(std::move(direct_));
  const Status second = ops_->close(std::move(buffered_));
  return (first.ok() ? second : first).with_context(path_.text());
}

}  // namespace stoker
