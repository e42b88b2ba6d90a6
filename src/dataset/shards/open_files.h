#pragma once

#include <cstddef>
#include <utility>

namespace stoker {

/// A share of the files that the datasets and fetchers of this process keep open between reads:
/// together a quarter of its limit of descriptors, two for each file. The other half of the limit
/// is left to engines, sockets and whatever else the program has. Who finds little free goes on
/// with less, and opens files more often.
///
/// The limit is the process's, and so is the count behind the shares: an atomic number, no lock
/// that a fork could leave held.
///
/// Thread safety: shares may be taken and given back by any thread; one share is one thread's.
class OpenFilesShare {
 public:
  OpenFilesShare() = default;
  /// Up to `wanted`, but no more than one of `parts` equal parts of what is free, so that whoever
  /// comes later finds something; `least` in any case.
  static OpenFilesShare take(std::size_t wanted, std::size_t parts, std::size_t least = 0);
  /// Exactly so many, free or not, for who was told a number.
  static OpenFilesShare insist(std::size_t count);

  OpenFilesShare(OpenFilesShare&& other) noexcept : count_(std::exchange(other.count_, 0)) {}
  OpenFilesShare& operator=(OpenFilesShare&& other) noexcept {
    std::swap(count_, other.count_);
    return *this;
  }
  ~OpenFilesShare();  ///< Gives them back.

  std::size_t count() const noexcept { return count_; }

 private:
  explicit OpenFilesShare(std::size_t count) : count_(count) {}

  std::size_t count_ = 0;
};

}  // namespace stoker
