#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace stoker::testing {

/// Says which file, directory or symbolic link; kNoInode is none.
using InodeId = std::uint64_t;
constexpr InodeId kNoInode = 0;

using NameTable = std::map<std::string, InodeId>;

/// One entry of one directory gets a new meaning.
struct NameChange {
  InodeId directory = kNoInode;
  std::string name = {};
  InodeId after = kNoInode;
};

/// A call that changed names: all of its changes survive a cut, or none does.
struct NameOp {
  std::vector<NameChange> changes = {};
  InodeId directory = kNoInode;        ///< The directory it made, moved or removed, if it did.
  InodeId emptied = kNoInode;          ///< The directory that had to be empty for it, if any.
  std::set<InodeId> unsynced = {};     ///< Directories whose fsync it still waits for.
  std::set<std::uint64_t> needs = {};  ///< Pending ones without which it cannot have happened.
};

/// The directories of the model disk: the names that are durable, and apart from them the calls
/// that changed names since.
///
/// Rules for a cut, the weakest on which our promise may rest:
/// - Calls survive in any subset, whatever their order. POSIX promises none; ext4, XFS and btrfs
///   happen to keep it through their journals.
/// - A call is atomic. A rename has happened or it has not, across directories too.
/// - A call needs the earlier ones that touched the same entry, or made, moved or removed the same
///   directory; and the removal of a directory needs the calls that emptied it. Without this a
///   directory could have two names.
/// - fsync of a directory makes its calls durable. A rename across directories waits for both. It
///   takes along what it needs.
/// - fsync of a file makes no name durable, and a directory whose name is lost takes along all
///   that it holds, durable or not.
///
/// Thread safety: none; ModelDisk provides it.
class ModelNames {
 public:
  /// `directory` exists and is empty, and that is durable.
  void add_directory(InodeId directory);
  /// `directory` exists with these names, and that is durable.
  void add_directory(InodeId directory, NameTable names);

  /// What `name` means while the power is on; kNoInode if nothing.
  InodeId find(InodeId directory, const std::string& name) const;
  const NameTable& live(InodeId directory) const { return live_.at(directory); }
  /// How many names lead to it.
  std::size_t count(InodeId inode) const;

  /// Applies a call. `unsynced` and `needs` are filled in here.
  void apply(NameOp op);
  void sync(InodeId directory);

  /// By serial number: in the order in which they were made.
  const std::map<std::uint64_t, NameOp>& pending() const { return pending_; }
  /// The pending calls that `serial` needs, itself and theirs included.
  std::set<std::uint64_t> with_needs(std::uint64_t serial) const;
  /// The names after a cut that kept those calls; one whose needs were lost is lost too.
  std::map<InodeId, NameTable> after_cut(const std::set<std::uint64_t>& kept) const;

 private:
  bool needs(const NameOp& later, const NameOp& earlier) const;

  std::map<InodeId, NameTable> durable_;
  std::map<InodeId, NameTable> live_;
  std::map<std::uint64_t, NameOp> pending_;
  std::uint64_t serial_ = 0;
};

}  // namespace stoker::testing
