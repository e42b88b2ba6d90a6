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

/// The alignment that O_DIRECT requires; 1 and 1 if there is no direct path.
struct DirectAlignment {
  std::uint32_t memory_bytes = 1;
  std::uint32_t offset_bytes = 1;  ///< Also for lengths.
};

/// Returns the alignment that statx(2) reports (Linux 6.1), or 4096 if it reports none;
/// `unsupported` if the kernel reports that this file has no direct I/O.
Result<DirectAlignment> direct_alignment_of(int fd);

/// A read that is ready to submit: the requested range, widened to the alignment.
struct ReadPlan {
  Request request;             ///< To submit. The caller sets `tag`.
  std::size_t skip_bytes = 0;  ///< Position of the first requested byte in the buffer.
  std::size_t size_bytes = 0;  ///< Requested bytes that are inside the file.
  IoPath path = IoPath::buffered;

  /// Returns the requested bytes after the request has completed with `result`. `io_error` if the
  /// file has become shorter since it was opened.
  Result<std::span<std::byte>> slice(std::int64_t result) const;
};

/// One file, with a buffered descriptor and, if possible, an O_DIRECT one. It plans transfers that
/// follow the rules of direct I/O; an Engine performs them.
///
/// Reads may mix both descriptors. Writes never do: a file is written through one path from the
/// first byte to the last, chosen when it is created.
///
/// Thread safety: const methods may be called from any thread. plan_write(), preallocate(),
/// finish() and close() belong to the one writer.
class File {
 public:
  struct Options {
    CachePolicy policy = CachePolicy::automatic;
    DirectAdvisor* advisor = nullptr;  ///< If null, `automatic` is direct on local disks only.
    bool allow_dont_cache = true;      ///< False: drop behind as on kernels before 6.14.
    /// For create() only: forked children do not keep the descriptors, nor the blocks of a removed
    /// file. The file must then not be used, closed or destroyed in a child.
    bool is_closed_in_children = false;
  };

  /// Opens a file for reading. `invalid_argument` if it is not a regular file; does not wait for a
  /// FIFO.
  static Result<File> open(FileOps& ops, const PathAt& path, const Options& options);
  /// Creates a file for writing. `already_exists` if the name is taken: durable data is never
  /// overwritten in place.
  static Result<File> create(FileOps& ops, const PathAt& path, const Options& options);

  const std::string& path() const noexcept { return path_.text(); }
  std::uint64_t size_bytes() const noexcept { return size_bytes_; }   ///< As of open() or finish().
  std::int64_t modified_ns() const noexcept { return modified_ns_; }  ///< As of open().
  DirectAlignment alignment() const noexcept { return alignment_; }
  int buffered_fd() const noexcept { return buffered_.get(); }
  int direct_fd() const noexcept { return direct_.get(); }  ///< -1 if there is none.
  CachePolicy policy() const noexcept { return policy_; }

  /// Returns the bytes of memory that plan_read() needs for a range, whatever its path.
  std::size_t scratch_bytes(std::uint64_t offset_bytes, std::size_t size_bytes) const;

  /// Plans reading a range, truncated at the end of the file, into `memory`, which must be at least
  /// scratch_bytes() long and aligned to 4096. Checks whether the range is cached if the path
  /// depends on it.
  Result<ReadPlan> plan_read(std::uint64_t offset_bytes, std::size_t size_bytes,
                             std::span<std::byte> memory) const;

  /// Plans a read through `path`, which read_path() or read_path_for() returned.
  Result<ReadPlan> plan_read(std::uint64_t offset_bytes, std::size_t size_bytes,
                             std::span<std::byte> memory, IoPath path) const;

  /// Returns the path for a range that is, or is not, in the page cache. For callers that know, and
  /// save plan_read() the check.
  IoPath read_path(bool is_resident) const noexcept;

  /// Returns the path for a range. Checks whether it is cached if the path depends on it.
  Result<IoPath> read_path_for(std::uint64_t offset_bytes, std::size_t size_bytes) const;

  /// Call it after a plan has completed: drops the pages that the read added to the cache, if the
  /// policy requires it and the kernel does not do it itself.
  void settle(const ReadPlan& plan) const;

  /// Reads a range and waits. The result is a part of `memory`.
  Result<std::span<std::byte>> read(Engine& engine, std::uint64_t offset_bytes,
                                    std::size_t size_bytes, std::span<std::byte> memory) const;
  /// Reads on the calling thread, without an engine; also works in a forked child.
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const;

  /// Reserves blocks, so that parallel writes do not wait for allocation and a full disk is
  /// reported now. A filesystem without fallocate is not an error.
  Status preallocate(std::uint64_t size_bytes);

  /// Plans writing the first `size_bytes` of `memory` at an offset that is a multiple of the
  /// alignment. A length that is not a multiple is padded with zeros inside `memory`, which must be
  /// long enough; only the end of the file may be padded, and finish() truncates it.
  Result<Request> plan_write(std::uint64_t offset_bytes, std::size_t size_bytes,
                             std::span<std::byte> memory);

  /// Returns the path that plan_write() uses.
  IoPath write_path() const noexcept { return write_path_; }

  /// Truncates to the exact size and makes the bytes durable. All writes must have completed. After
  /// a failure the file must be abandoned: fsync is never retried. The name becomes durable only
  /// when its directory is fsynced.
  Status finish(std::uint64_t size_bytes);

  /// Closes both descriptors and returns the first error of close(2).
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
