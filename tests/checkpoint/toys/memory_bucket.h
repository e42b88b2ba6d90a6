#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "stoker/status.h"

namespace stoker::testing {

/// What becomes of a request.
enum class Fate : std::uint8_t {
  served,
  request_lost,  ///< It does not arrive.
  answer_lost,   ///< It is performed, but nobody hears of it.
};

/// The server of a bucket: whole objects, no directories, no renames. An object is visible when its
/// put has been performed, and what was performed is never lost.
///
/// Thread safety: every method may be called from any thread; `fate` from several at once.
class MemoryBucket {
 public:
  struct Object {
    std::shared_ptr<const std::string> bytes;
    std::uint64_t version = 0;  ///< New with each put of any object.
  };

  /// Asked about each put, remove, copy and list: "put log/1". Gets change nothing and are always
  /// served. To be set while nobody uses the bucket.
  std::function<Fate(const std::string& request)> fate;

  /// Replaces what is there.
  Status put(const std::string& key, std::string bytes) {
    return change("put " + key, [&](Contents& contents) { contents.set(key, std::move(bytes)); });
  }
  /// If-None-Match: false if there is an object.
  Result<bool> put_if_absent(const std::string& key, std::string bytes) {
    bool is_new = false;
    STOKER_TRY(change("put " + key, [&](Contents& contents) {
      is_new = !contents.objects.contains(key);
      if (is_new) contents.set(key, std::move(bytes));
    }));
    return is_new;
  }
  /// If-Match: false if there is another version, or none.
  Result<bool> put_if_version(const std::string& key, std::uint64_t version, std::string bytes) {
    bool is_same = false;
    STOKER_TRY(change("put " + key, [&](Contents& contents) {
      const auto found = contents.objects.find(key);
      is_same = found != contents.objects.end() && found->second.version == version;
      if (is_same) contents.set(key, std::move(bytes));
    }));
    return is_same;
  }
  /// On the server. False if `from` has another version, or is not there.
  Result<bool> copy(const std::string& from, std::uint64_t version, const std::string& to) {
    bool is_same = false;
    STOKER_TRY(change("copy " + from + " " + to, [&](Contents& contents) {
      const auto found = contents.objects.find(from);
      is_same = found != contents.objects.end() && found->second.version == version;
      if (is_same)
        contents.objects[to] = {.bytes = found->second.bytes, .version = ++contents.version};
    }));
    return is_same;
  }
  Status remove(const std::string& key) {
    return change("remove " + key, [&](Contents& contents) { contents.objects.erase(key); });
  }
  /// The keys that begin so, in order.
  Result<std::vector<std::string>> list(const std::string& prefix) {
    std::vector<std::string> keys;
    STOKER_TRY(change("list " + prefix, [&](Contents& contents) {
      for (auto at = contents.objects.lower_bound(prefix);
           at != contents.objects.end() && at->first.starts_with(prefix); ++at)
        keys.push_back(at->first);
    }));
    return keys;
  }
  Result<Object> get(const std::string& key) {
    const MutexLock lock(mutex_);
    const auto found = contents_.objects.find(key);
    if (found == contents_.objects.end())
      return Status(Code::not_found, "bucket: no object " + key);
    return found->second;
  }

 private:
  struct Contents {
    std::map<std::string, Object> objects;
    std::uint64_t version = 0;  ///< The newest.

    void set(const std::string& key, std::string bytes) {
      objects[key] = {.bytes = std::make_shared<const std::string>(std::move(bytes)),
                      .version = ++version};
    }
  };

  static Status no_answer(const std::string& request) {
    return {Code::unavailable, "bucket: no answer to " + request};
  }

  template <typename Change>
  Status change(const std::string& request, Change&& perform) {
    const Fate ends = fate ? fate(request) : Fate::served;
    const MutexLock lock(mutex_);
    if (ends != Fate::request_lost) perform(contents_);
    return ends == Fate::served ? Status() : no_answer(request);
  }

  Mutex mutex_;
  Contents contents_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker::testing
