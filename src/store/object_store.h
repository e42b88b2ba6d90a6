/// \file
/// ObjectStore: named byte strings in one place: a local directory tree, a bucket, memory.
///
/// The border is crossed once for each object, not once for each read: open() gives an Object, and
/// whoever reads many ranges takes its File where it is a local one, or else a RangeSource of the
/// store. So local files keep their descriptors, O_DIRECT and the page cache.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/engine/range_source.h"
#include "io/files/cache_policy.h"
#include "io/files/file.h"
#include "stoker/status.h"

namespace stoker {

struct ObjectInfo {
  std::uint64_t size_bytes = 0;
  /// Differs if the bytes differ: the time of the last change of a local file, in nanoseconds; a
  /// hash of what another store has, such as an ETag.
  std::int64_t version = 0;

  friend bool operator==(const ObjectInfo&, const ObjectInfo&) = default;
};

/// An object, open for reading. Every range is of the version that info() tells, or fails, or, of a
/// local file that is changed in place, shows in info_now().
///
/// Thread safety: const methods from any thread, also in a forked child.
class Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  virtual const std::string& key() const noexcept = 0;
  virtual const ObjectInfo& info() const noexcept = 0;  ///< When it was opened.
  /// As it is now. Only what can be changed while it is open has to look.
  virtual Result<ObjectInfo> info_now() const { return info(); }

  /// Where the object is a local file; else null.
  virtual const File* file() const noexcept { return nullptr; }

  /// Memory that read() needs for a range. Exactly `size_bytes` for an object that was opened with
  /// CachePolicy::buffered, and for one that is no file.
  virtual std::size_t scratch_bytes(std::uint64_t /*offset_bytes*/, std::size_t size_bytes) const {
    return size_bytes;
  }
  /// Reads a range, cut at the end of the object, and waits. The bytes lie in `memory`, which has
  /// scratch_bytes(), aligned to 4096 where that is more than the range.
  virtual Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                            std::span<std::byte> memory) const = 0;
};

/// A request for a range of an object, for a source that its store has made. Past the end of the
/// object it completes with fewer bytes.
Request request_of(const Object& object, std::uint64_t offset_bytes, std::span<std::byte> buffer);

/// A new object on its way. Nothing is visible before it is committed; the destructor aborts and
/// leaves nothing.
///
/// Thread safety: none.
class Upload {
 public:
  Upload() = default;
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  virtual ~Upload() = default;

  /// After a failure the upload is to be abandoned.
  virtual Status append(std::span<const std::byte> data) = 0;

  /// Makes the object visible, replacing what was there, whole or not at all. Once this has
  /// returned OK it survives a power loss.
  virtual Result<ObjectInfo> commit() && = 0;

  /// As commit(), but `already_exists` if the key is taken: of several at once, exactly one
  /// succeeds. A store that cannot promise this returns `unsupported`.
  virtual Result<ObjectInfo> commit_if_absent() && = 0;
};

/// Keys are names separated by "/"; what is before a "/" is a folder. Folders need not be made:
/// they are there as long as there is something in them (a local one also longer). The folder "."
/// is the one at the top. Errors name the key.
///
/// Thread safety: every method from any thread.
/// Conformance: an implementation is done when it passes tests/conformance/object_store_suite.h.
class ObjectStore {
 public:
  enum class Kind : std::uint8_t {
    object,
    folder,
    other,  ///< Of a local directory: a FIFO, a device, a link that leads nowhere.
  };
  /// What a key stands for.
  struct Entry {
    Kind kind = Kind::object;
    ObjectInfo info = {};  ///< Of an object.
  };
  /// Told of each name in a folder. False ends the list.
  using Found = std::function<bool(const std::string& name, Kind kind)>;

  ObjectStore() = default;
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;
  virtual ~ObjectStore() = default;

  /// Whether keys are paths of this machine, so that files can be written, locked and mapped beside
  /// the objects.
  virtual bool is_local() const noexcept { return false; }

  /// `not_found` if there is no such object, `invalid_argument` for what is none. `policy` is for
  /// local files.
  virtual Result<std::unique_ptr<const Object>> open(
      const std::string& key, CachePolicy policy = CachePolicy::automatic) = 0;

  /// `not_found` if there is neither an object nor a folder of that name.
  virtual Result<Entry> look(const std::string& key) = 0;

  /// The names directly in a folder, in bytewise order. `not_found` if there is no such folder.
  virtual Status list(const std::string& folder, const Found& found) = 0;

  /// Reads many ranges of this store's objects at a time: see request_of(). One for each thread.
  /// The objects are borrowed until their requests have completed.
  virtual Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) = 0;

  /// Begins a new object.
  virtual Result<std::unique_ptr<Upload>> upload(const std::string& key) = 0;

  /// OK also if the key was not there.
  virtual Status remove(const std::string& key) = 0;
};

}  // namespace stoker
