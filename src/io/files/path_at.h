#pragma once

#include <fcntl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/unique_fd.h"

namespace stoker {

/// An open directory, below which names are looked up.
///
/// Thread safety: immutable.
struct RootDirectory {
  std::string path;  ///< As opened; for messages.
  UniqueFd fd;
};

/// The location of a file: a path as a user gave it, or a name below an open directory.
///
/// A path is looked up as in open(2), following symbolic links. A name below a directory is looked
/// up from the directory's descriptor and cannot lead out of it; if a component is a symbolic link,
/// FileOps fails with ELOOP. A user who can write to the directory thus cannot make Stoker read,
/// write or remove anything elsewhere.
///
/// Thread safety: immutable; copies share the descriptor.
class PathAt {
 public:
  // Implicit, because most callers have a path.
  PathAt(std::string path) : text_(std::move(path)) {}  // NOLINT(google-explicit-constructor)
  PathAt(const char* path) : text_(path) {}             // NOLINT(google-explicit-constructor)
  /// `name` consists of components separated by "/"; an empty name is the directory itself.
  PathAt(std::shared_ptr<const RootDirectory> root, std::string_view name);

  /// Returns the whole path, for messages.
  const std::string& text() const noexcept { return text_; }
  bool is_below() const noexcept { return root_ != nullptr; }
  /// Returns the descriptor of the root; AT_FDCWD for a path.
  int root_fd() const noexcept { return root_ == nullptr ? AT_FDCWD : root_->fd.get(); }
  /// Returns the name to look up from root_fd().
  std::string_view name() const noexcept {
    return std::string_view(text_).substr(root_ == nullptr ? 0 : name_begin_);
  }

  /// Returns the last component.
  std::string_view last() const noexcept {
    return std::string_view(text_).substr(text_.rfind('/') + 1);
  }
  PathAt operator/(std::string_view name) const;
  /// Returns the parent directory; "." for a bare name. Must not be called for a root itself.
  PathAt parent() const;

 private:
  std::shared_ptr<const RootDirectory> root_;
  std::size_t name_begin_ = 0;
  std::string text_;
};

}  // namespace stoker
