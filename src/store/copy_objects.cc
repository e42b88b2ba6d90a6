// Implements stoker/copy.h.
//
// For each object, in one of several threads:
//
// 1. Open the source, which fixes the version that is read.
// 2. Look at the destination, unless it is to be replaced. An equal object is done.
// 3. Read, hash and append; nothing is visible yet.
// 4. Commit: the object is whole and durable.
// 5. Read it back and compare the hashes.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/exception_status.h"
#include "base/mutex.h"
#include "base/work_together.h"
#include "formats/plain_name.h"
#include "stoker/copy.h"
#include "store/object_reader.h"
#include "store/open_object.h"

namespace stoker {
namespace {

constexpr int kFoldersMax = 64;  // one inside the other

/// An object to copy: keys in the two stores.
struct Item {
  std::string from;
  std::string to;
};

std::string joined(const std::string& folder, const std::string& name) {
  if (folder == ".") return name;
  return folder.ends_with("/") ? folder + name : folder + "/" + name;
}

std::string name_of(std::string_view key) {
  while (key.size() > 1 && key.ends_with("/")) key.remove_suffix(1);
  return std::string(key.substr(key.rfind('/') + 1));
}

/// Finds the objects below a folder.
class Walk {
 public:
  Walk(ObjectStore& from, bool is_to_files, const CopyOptions& options)
      : from_(from), is_to_files_(is_to_files), options_(options) {}

  Status add(const std::string& from, const std::string& to, int depth = 0) {
    if (depth > kFoldersMax)
      return {Code::invalid_argument, from +
                                          ": too many folders inside each other; is one a link "
                                          "to a folder above it?"};
    std::vector<std::pair<std::string, ObjectStore::Kind>> names;
    STOKER_TRY(from_.list(from, [&](const std::string& name, ObjectStore::Kind kind) {
      names.emplace_back(name, kind);
      return !is_interrupted();
    }));
    for (const auto& [name, kind] : names) {
      if (is_interrupted()) return {Code::cancelled, "interrupted"};
      const std::string key = joined(from, name);
      // A server may say anything: "../x" would lead out of the folder.
      if (name.empty() || (is_to_files_ && !is_plain_file_name(name)))
        return {Code::invalid_argument, key + ": Stoker makes no file with this name"};
      switch (kind) {
        case ObjectStore::Kind::object: items.push_back({key, joined(to, name)}); break;
        case ObjectStore::Kind::folder: STOKER_TRY(add(key, joined(to, name), depth + 1)); break;
        case ObjectStore::Kind::other:
          return {Code::invalid_argument, key + " is neither a file nor a folder"};
      }
    }
    return {};
  }

  std::vector<Item> items;

 private:
  bool is_interrupted() const { return options_.is_interrupted && options_.is_interrupted(); }

  ObjectStore& from_;
  const bool is_to_files_;
  const CopyOptions& options_;
};

/// What the threads of a copy share.
///
/// Thread safety: every method from any thread.
class Shared {
 public:
  Shared(std::uint64_t object_count, const CopyOptions& options)
      : options_(options), progress_{.object_count = object_count} {}

  /// Returns the number of an object that nobody has taken; nothing at the end or after an error.
  std::optional<std::uint64_t> take() {
    const MutexLock lock(mutex_);
    if (!failure_.ok() || taken_ == progress_.object_count) return std::nullopt;
    return taken_++;
  }
  void fail(const Status& status) {
    const MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = status;
    has_failed_.store(true, std::memory_order_relaxed);  // a hint to stop early: no order needed
  }
  /// Called now and then: an error if the copy is to end.
  Status check() const {
    if (has_failed_.load(std::memory_order_relaxed) ||
        (options_.is_interrupted && options_.is_interrupted()))
      return {Code::cancelled, "interrupted"};
    return {};
  }
  void add_bytes(std::uint64_t bytes) {
    {
      const MutexLock lock(mutex_);
      progress_.copied_bytes += bytes;
    }
    show();
  }
  void add(const CopyReport& done) {
    {
      const MutexLock lock(mutex_);
      report_.copied_count += done.copied_count;
      report_.copied_bytes += done.copied_bytes;
      report_.present_count += done.present_count;
      report_.present_bytes += done.present_bytes;
      ++progress_.done_count;
    }
    show();
  }
  Result<CopyReport> end() {
    const MutexLock lock(mutex_);
    if (!failure_.ok()) return failure_;
    return report_;
  }

 private:
  void show() {
    if (!options_.progress) return;
    const MutexLock one_call_at_a_time(showing_);
    CopyProgress now;
    {
      const MutexLock lock(mutex_);
      now = progress_;
    }
    options_.progress(now);
  }

  const CopyOptions& options_;
  Mutex showing_;
  std::atomic<bool> has_failed_ = false;
  Mutex mutex_;
  Status failure_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t taken_ STOKER_GUARDED_BY(mutex_) = 0;
  CopyProgress progress_ STOKER_GUARDED_BY(mutex_);
  CopyReport report_ STOKER_GUARDED_BY(mutex_);
};

/// Copies objects, one at a time.
///
/// Thread safety: none.
class Copier {
 public:
  static Result<Copier> make(ObjectStore& from, ObjectStore& to, const CopyOptions& options,
                             Shared& shared) {
    STOKER_ASSIGN(ObjectReader reader, ObjectReader::make(from));
    STOKER_ASSIGN(ObjectReader reader_back, ObjectReader::make(to));
    return Copier(from, to, options, shared, std::move(reader), std::move(reader_back));
  }

  Status copy(const Item& item) {
    STOKER_ASSIGN(const std::unique_ptr<const Object> source,
                  open_object(*from_, item.from, CachePolicy::buffered));
    if (options_->if_present == IfPresent::compare || options_->if_present == IfPresent::skip) {
      STOKER_ASSIGN(const bool is_present, has(item.to, *source));
      if (is_present) {
        shared_->add({.present_count = 1, .present_bytes = source->info().size_bytes});
        return {};
      }
    }
    STOKER_ASSIGN(const Digest128 digest, write(*source, item.to));
    if (options_->is_verified) {
      STOKER_ASSIGN(const std::unique_ptr<const Object> made,
                    open_object(*to_, item.to, CachePolicy::buffered));
      STOKER_ASSIGN(const Digest128 found, digest_of(*made, reader_back_));
      if (found != digest)
        return {Code::corrupt, item.to + ": what was read back is not what was written"};
    }
    shared_->add({.copied_count = 1, .copied_bytes = source->info().size_bytes});
    return {};
  }

 private:
  Copier(ObjectStore& from, ObjectStore& to, const CopyOptions& options, Shared& shared,
         ObjectReader reader, ObjectReader reader_back)
      : from_(&from),
        to_(&to),
        options_(&options),
        shared_(&shared),
        reader_(std::move(reader)),
        reader_back_(std::move(reader_back)) {}

  /// Whether the destination has an equal object.
  Result<bool> has(const std::string& key, const Object& source) {
    const Result<ObjectStore::Entry> entry = to_->look(key);
    if (entry.status().code() == Code::not_found) return false;
    if (!entry.ok()) return entry.status();
    if (entry->kind != ObjectStore::Kind::object)
      return Status(Code::invalid_argument, key + " is in the way: it is no file");
    if (entry->info.size_bytes != source.info().size_bytes) return false;
    if (options_->if_present == IfPresent::skip) return true;
    STOKER_ASSIGN(const std::unique_ptr<const Object> present,
                  open_object(*to_, key, CachePolicy::buffered));
    STOKER_ASSIGN(const Digest128 found, digest_of(*present, reader_back_));
    STOKER_ASSIGN(const Digest128 wanted, digest_of(source, reader_));
    return found == wanted;
  }

  Result<Digest128> digest_of(const Object& object, ObjectReader& reader) {
    Xxh3Stream hash;
    STOKER_TRY(reader.read(object, [&](std::span<const std::byte> bytes) -> Status {
      hash.update(bytes);
      return shared_->check();
    }));
    return hash.digest();
  }

  Result<Digest128> write(const Object& source, const std::string& key) {
    STOKER_ASSIGN(std::unique_ptr<Upload> upload, open_upload(*to_, key));
    Xxh3Stream hash;
    STOKER_TRY(reader_.read(source, [&](std::span<const std::byte> bytes) -> Status {
      hash.update(bytes);
      STOKER_TRY(upload->append(bytes));
      shared_->add_bytes(bytes.size());
      return shared_->check();
    }));
    const Result<ObjectInfo> made = options_->if_present == IfPresent::fail
                                        ? std::move(*upload).commit_if_absent()
                                        : std::move(*upload).commit();
    if (!made.ok()) return made.status();
    return hash.digest();
  }

  ObjectStore* from_;
  ObjectStore* to_;
  const CopyOptions* options_;
  Shared* shared_;
  ObjectReader reader_;
  ObjectReader reader_back_;
};

Result<std::vector<Item>> items_of(const StorePlace& from, const StorePlace& to,
                                   const CopyOptions& options) {
  STOKER_ASSIGN(const ObjectStore::Entry entry, from.store->look(from.key));
  if (entry.kind == ObjectStore::Kind::other)
    return Status(Code::invalid_argument, from.key + " is neither a file nor a folder");
  if (entry.kind == ObjectStore::Kind::folder) {
    Walk walk(*from.store, to.store->is_local(), options);
    STOKER_TRY(walk.add(from.key, to.key));
    return std::move(walk.items);
  }
  const Result<ObjectStore::Entry> target = to.store->look(to.key);
  const bool is_folder = target.ok() && target->kind == ObjectStore::Kind::folder;
  return std::vector{Item{from.key, is_folder ? joined(to.key, name_of(from.key)) : to.key}};
}

Result<CopyReport> copy(const StorePlace& from, const StorePlace& to, const CopyOptions& options) {
  if (options.objects_in_flight == 0)
    return Status(Code::invalid_argument, "objects_in_flight is 0");
  if (from.store == nullptr || to.store == nullptr)
    return Status(Code::invalid_argument, "copy_objects: a place without a store");
  STOKER_ASSIGN(const std::vector<Item> items, items_of(from, to, options));
  Shared shared(items.size(), options);
  work_together(std::min<std::size_t>(options.objects_in_flight, items.size()), [&] {
    Result<Copier> copier = Copier::make(*from.store, *to.store, options, shared);
    if (!copier.ok()) return shared.fail(copier.status());
    while (const std::optional<std::uint64_t> number = shared.take()) {
      const Item& item = items[*number];
      if (Status status = copier->copy(item); !status.ok())
        return shared.fail(status.with_context("copy " + item.from));
    }
  });
  return shared.end();
}

}  // namespace

Result<CopyReport> copy_objects(const StorePlace& from, const StorePlace& to,
                                const CopyOptions& options) {
  try {
    return copy(from, to, options);
  } catch (...) {
    return internal::status_of_exception();
  }
}

}  // namespace stoker
