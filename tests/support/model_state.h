#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "io/files/file_ops.h"
#include "support/model_file.h"
#include "support/model_names.h"

namespace stoker::testing {

/// What is at an inode, names apart. The mode, and what a symbolic link points to, come and go with
/// the inode: nothing that we promise rests on the former, and no call could sync the latter.
struct ModelInode {
  FileKind kind = FileKind::regular;
  unsigned mode = 0644;
  std::string target = {};  ///< Of a symbolic link.
  ModelFile file = {};      ///< Of a regular file.
};

/// Where a path leads.
struct ModelPlace {
  InodeId directory = kNoInode;  ///< Holds the last name; kNoInode for the root itself.
  std::string name = {};
  InodeId inode = kNoInode;  ///< kNoInode if nothing has that name.
};

/// The whole model disk as plain data: copies are snapshots, and cheap, because blocks are shared.
///
/// Thread safety: none; ModelDisk provides it.
class ModelState {
 public:
  static constexpr InodeId kRoot = 1;

  /// An empty root directory.
  ModelState();
  /// A disk on which everything is durable: those names, as far as the root reaches them, and the
  /// inodes behind them.
  ModelState(const std::map<InodeId, NameTable>& tables,
             const std::map<InodeId, ModelInode>& inodes);

  /// Paths begin at the root, with or without a slash. ENOENT and ENOTDIR for what leads nowhere
  /// before the last name, ELOOP for links in a circle.
  Result<ModelPlace> resolve(const std::string& path, bool follow_last) const;

  InodeId add_inode(ModelInode inode);
  ModelInode& at(InodeId inode) { return inodes_.at(inode); }
  const ModelInode& at(InodeId inode) const { return inodes_.at(inode); }
  const std::map<InodeId, ModelInode>& inodes() const { return inodes_; }
  ModelNames& names() { return names_; }
  const ModelNames& names() const { return names_; }

  /// Whether `inner` is `outer` or lies below it.
  bool is_below(InodeId inner, InodeId outer) const;

  /// Equal for equal trees: names, kinds, link targets, sizes and bytes, as a reader sees them.
  Digest128 fingerprint() const;

 private:
  std::map<InodeId, ModelInode> inodes_;
  ModelNames names_;
  InodeId last_ = kRoot;
};

}  // namespace stoker::testing
