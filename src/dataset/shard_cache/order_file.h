/// \file
/// What a process says to the others that share a cache: which samples it will read next. One file
/// for each order, locked (flock) as long as its process lives, overwritten in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/fork_closed_fd.h"
#include "io/files/file_ops.h"
#include "stoker/cursor.h"
#include "stoker/status.h"

namespace stoker {

struct OrderPlace {
  /// The order, the data and the position, as in a checkpoint.
  Cursor cursor;
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  double positions_per_second = 0;  ///< Of all ranks together; 0: not known yet.

  /// Identifies order and data, without the position: of two places with the same line, one order
  /// object serves both.
  Digest128 line() const;
};

std::vector<std::byte> format_order_place(const OrderPlace& place);
/// `corrupt` for anything that format_order_place() does not write.
Result<OrderPlace> parse_order_place(std::span<const std::byte> bytes);

/// An order that this process has announced. The destructor removes the file.
///
/// Thread safety: none.
class OrderFile {
 public:
  /// `folder` is that of the cache (CacheDirectory::orders()).
  static Result<std::unique_ptr<OrderFile>> create(FileOps& ops, const PathAt& folder);
  OrderFile(const OrderFile&) = delete;
  OrderFile& operator=(const OrderFile&) = delete;
  ~OrderFile();

  Status write(const OrderPlace& place);

 private:
  OrderFile(FileOps& ops, PathAt path, UniqueFd fd)
      : ops_(ops), path_(std::move(path)), fd_(std::move(fd)) {}

  FileOps& ops_;
  const PathAt path_;
  ForkClosedFd fd_;
};

/// Returns the places of all live processes, and removes the files of dead ones. Files that are
/// damaged, or being written, are left out.
std::vector<OrderPlace> read_order_files(FileOps& ops, const PathAt& folder);

}  // namespace stoker
