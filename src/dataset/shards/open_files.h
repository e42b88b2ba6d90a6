#pragma once

#include <cstddef>
#include <utility>

namespace stoker {

/// A share of the files that the datasets and fetchers of this process keep open between reads. All
/// shares together are at most a quarter of the descriptor limit, unless a caller insists on more:
/// with two descriptors per file, half of the limit stays free for engines, sockets and the rest of
/// the program. A caller that gets a small share works with it, and opens files more often.
///
/// The limit belongs to the process, and so does the count of all shares: an atomic number, not a
/// lock that a fork could leave held.
///
/// Thread safety: shares may be taken and released on any thread; a single share has none.
class OpenFilesShare {
 public:
  OpenFilesShare() = default;
  /// Takes up to `wanted`, but at most 1/`parts` of what is free, so that later callers get
  /// something; at least `least`.
  static OpenFilesShare take(std::size_t wanted, std::size_t parts, std::size_t least = 0);
  /// Takes exactly `count`, free or not, for a user-defined number.
  static OpenFilesShare insist(std::size_t count);

  OpenFilesShare(OpenFilesShare&& other) noexcept : count_(std::exchange(other.count_, 0)) {}
  OpenFilesShare& operator=(OpenFilesShare&& other) noexcept {
    std::swap(count_, other.count_);
    return *this;
  }
  ~OpenFilesShare();  ///< Releases the share.

  std::size_t count() const noexcept { return count_; }

 private:
  explicit OpenFilesShare(std::size_t count) : count_(count) {}

  std::size_t count_ = 0;
};

}  // namespace stoker
