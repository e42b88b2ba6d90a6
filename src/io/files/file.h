#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/fork_closed_fd.h"
#include "base/unique_fd.h"
#include "io/engine/engine.h"
#include "io/files/cache_policy.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// What O_DIRECT asks of this file; 1 and 1 where there is no direct path.
struct DirectAlignment {
  std::uint32_t memory_bytes = 1;
  std::uint32_t offset_bytes = 1;  ///< Also of lengths.
};

/// statx(2) where it knows (Linux 6.1), else 4096; `unsupported` where the kernel says there is no
/// direct I/O on this file.
Result<DirectAlignment> direct_alignment_of(int fd);

/// A read as the device wants it: the range asked for, widened to the alignment.
struct ReadPlan {
  Request request;             ///< To be submitted. `tag` is the caller's to set.
  std::size_t skip_bytes = 0;  ///< Where the first byte asked for will lie in the buffer.
  std::size_t size_bytes = 0;  ///< Bytes asked for that are inside the file.
  IoPath path = IoPath::buffered;

  /// The bytes asked for, once the request has completed with `result`. `io_error` if the file
  /// turned out shorter than it was when it was opened.
  Result<std::span<std::byte>> slice(std::int64_t result) const;
};

/// One file, with a buffered descriptor and, where allowed, an O_DIRECT one. It plans transfers and
/// keeps the rules that direct I/O has; an Engine performs them.
///
/// Rules: reads may mix both descriptors. Writes never do: a file being written uses one path from
/// the first byte to the last, chosen when it is created.
///
/// Thread safety: const methods may be called from any thread. plan_write(), preallocate(),
/// finish() and close() belong to the one writer.
class File {
 public:
  struct Options {
    CachePolicy policy = CachePolicy::automatic;
    DirectAdvisor* advisor = nullptr;  ///< Without one, `automatic` is direct on local disks only.
    bool allow_dont_cache = true;      ///< False drops behind as kernels before 6.14 must.
    /// Forked children do not keep the descriptors, and with them the blocks of a file that is
    /// removed. The file must not be used, closed or destroyed in a child then.
    bool is_closed_in_children = false;
  };

  /// `invalid_argument` for what is no regular file; a FIFO is not waited for.
  static Result<File> open(FileOps& ops, const PathAt& path, const Options& options);
  /// `already_exists` if there is one: what is durable is never overwritten in place.
  static Result<File> create(FileOps& ops, const PathAt& path, const Options& options);

  const std::string& path() const noexcept { return path_.text(); }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }   ///< When opened or finished.
  std::int64_t modified_ns() const noexcept { return modified_ns_; }  ///< When opened.
  DirectAlignment alignment() const noexcept { return alignment_; }
  int buffered_fd() const noexcept { return buffered_.get(); }
  int direct_fd() const noexcept { return direct_.get(); }  ///< -1 where there is none.
  CachePolicy policy() const noexcept { return policy_; }

  /// Memory that plan_read() needs for a range, whichever path it takes.
  std::size_t scratch_bytes(std::uint64_t offset_bytes, std::size_t size_bytes) const;

  /// Plans reading a range, cut at the end of the file, into `memory`: at least scratch_bytes()
  /// long and aligned to 4096. Under `automatic` it looks whether the page cache has the range.
  Result<ReadPlan> plan_read(std::uint64_t offset_bytes, std::size_t size_bytes,
                             std::span<std::byte> memory) const;

  /// The same by a path that the caller has chosen: one that read_path() gave.
  Result<ReadPlan> plan_read(std::uint64_t offset_bytes, std::size_t size_bytes,
                             std::span<std::byte> memory, IoPath path) const;

  /// The path of a range that the page cache holds, or does not: for callers who know, and spare
  /// plan_read() the look.
  IoPath read_path(bool is_resident) const noexcept;

  /// The path of a range: looks whether the page cache holds it where that decides.
  Result<IoPath> read_path_for(std::uint64_t offset_bytes, std::size_t size_bytes) const;

  /// To be called with a completed plan: drops what this read brought into the cache, where the
  /// policy asks for it and the kernel has not done it already.
  void settle(const ReadPlan& plan) const;

  /// Reads a range and waits. The bytes lie in `memory`.
  Result<std::span<std::byte>> read(Engine& engine, std::uint64_t offset_bytes,
                                    std::size_t size_bytes, std::span<std::byte> memory) const;
  /// The same on the calling thread, without an engine: also in a forked child.
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const;

  /// Reserves blocks, so that parallel writes do not wait for allocation and a full disk shows now.
  /// A filesystem without fallocate is not an error.
  Status preallocate(std::uint64_t size_bytes);

  /// Plans writing the first `size_bytes` of `memory` at an offset that is a multiple of the
  /// alignment. A length that is not is padded with zeros inside `memory`, which must be long
  /// enough; only the file's tail may be so, and finish() cuts it to the exact size.
  Result<Request> plan_write(std::uint64_t offset_bytes, std::size_t size_bytes,
                             std::span<std::byte> memory);

  /// The path plan_write() uses.
  IoPath write_path() const noexcept { return write_path_; }

  /// Truncates to the exact size and makes the bytes durable. All writes must have completed. After
  /// a failure the file is to be abandoned: fsync is never tried again. The name is durable only
  /// once its directory is fsynced too.
  Status finish(std::uint64_t size_bytes);

  /// Closes both descriptors and reports what close(2) says.
  Status close() &&;

 private:
  File(FileOps& ops, PathAt path, const Options& options)
      : ops_(&ops), path_(std::move(path)), policy_(options.policy) {}

  Result<std::span<std::byte>> finish_read(const ReadPlan& plan,
                                           const Result<std::size_t>& moved) const;
  Status open_direct(int flags, const Options& options, bool for_writes);

  FileOps* ops_;
  PathAt path_;
  CachePolicy policy_;
  UniqueFd buffered_;
  UniqueFd direct_;
  std::array<ClosedInChildren, 2> in_children_;  // destroyed before the descriptors
  DirectAlignment alignment_;
  std::uint64_t size_bytes_ = 0;
  std::int64_t modified_ns_ = 0;
  bool direct_pays_ = false;
  bool dont_cache_ = false;
  IoPath write_path_ = IoPath::buffered;
};

}  // namespace stoker
