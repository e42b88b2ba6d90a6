#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// Returns why a range of the object with this key could not be read.
Status failure_of(const Completion& failed, const std::string& key);
/// Returns the failure with the key of its object, unless the message has it.
Status naming(const Status& failure, const std::string& key);

/// Reads whole objects of a store in order, with several ranges in flight.
///
/// Thread safety: none.
class ObjectReader {
 public:
  /// Called with the bytes of an object, piece by piece. An error that it returns ends the read.
  using Took = std::function<Status(std::span<const std::byte>)>;

  static Result<ObjectReader> make(ObjectStore& store);

  /// After an error the reader must not be used again. `unavailable` if the object is shorter than
  /// it was when it was opened.
  Status read(const Object& object, const Took& took);

 private:
  explicit ObjectReader(std::unique_ptr<RangeSource> source);
  Status reap(const Object& object);

  /// A part of the object that is being read.
  struct Piece {
    std::vector<std::byte> memory;
    std::size_t size_bytes = 0;
    bool is_in_flight = false;
  };
  std::vector<Piece> pieces_;            // a ring; before source_, which writes to them
  std::unique_ptr<RangeSource> source_;  // its destructor waits for what is in flight
};

}  // namespace stoker
