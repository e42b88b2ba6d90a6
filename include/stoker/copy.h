/// \file
/// copy_objects(): copies objects between any two stores.
#pragma once

#include <cstdint>
#include <functional>

#include "stoker/api.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// What to do with an object that the destination has already.
enum class IfPresent : std::uint8_t {
  compare,  ///< Read both; replace it if they differ.
  skip,     ///< If the sizes are equal, take the contents for equal; otherwise replace it.
  replace,
  fail,  ///< `already_exists`. The store decides, so that no object is ever replaced.
};

struct CopyProgress {
  std::uint64_t object_count = 0;  ///< To copy or to compare.
  std::uint64_t done_count = 0;    ///< Of these.
  std::uint64_t copied_bytes = 0;
};

struct CopyOptions {
  IfPresent if_present = IfPresent::compare;
  /// Reads each new object back and compares it with what was written.
  bool is_verified = true;
  /// Each takes about 16 MiB of memory, and what an upload to its store takes.
  std::uint32_t objects_in_flight = 4;
  /// Called on any thread, one call at a time.
  std::function<void(const CopyProgress&)> progress = {};
  /// Called on any thread, often. Return true to end with `cancelled`.
  std::function<bool()> is_interrupted = {};
};

struct CopyReport {
  std::uint64_t copied_count = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t present_count = 0;  ///< Objects that were there already.
  std::uint64_t present_bytes = 0;
};

/// Copies the object `from`, or all objects below the folder `from`, several at a time. An object
/// becomes `to`, or an object in it if `to` is a folder; a folder's objects keep their names below
/// `to`. Each appears whole or not at all, and is durable when the call returns.
///
/// After an error, or a kill, the same call continues: it does not copy again what is there. An
/// object that was only copied in part is copied anew. The first error ends the call.
/// `corrupt` if what is read back differs, `unavailable` if an object changed in the meantime,
/// `invalid_argument` for a name that would lead out of a local folder, and for a FIFO or a device.
STOKER_API Result<CopyReport> copy_objects(const StorePlace& from, const StorePlace& to,
                                           const CopyOptions& options = {});

}  // namespace stoker
