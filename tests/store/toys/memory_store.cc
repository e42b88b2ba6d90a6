#include "store/toys/memory_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "base/checksum.h"
#include "base/clock.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using Bytes = std::shared_ptr<const std::vector<std::byte>>;

ObjectInfo info_of(const std::vector<std::byte>& bytes) {
  return {.size_bytes = bytes.size(), .version = static_cast<std::int64_t>(xxh3_128(bytes).low)};
}

Status missing(const std::string& key) {
  return {Code::not_found, key + ": there is no such object", ENOENT};
}

class MemoryObject final : public Object {
 public:
  MemoryObject(std::string key, Bytes bytes)
      : key_(std::move(key)), bytes_(std::move(bytes)), info_(info_of(*bytes_)) {}

  const std::string& key() const noexcept override { return key_; }
  const ObjectInfo& info() const noexcept override { return info_; }
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const override {
    return memory.first(copy(offset_bytes, memory.first(size_bytes)));
  }
  std::size_t copy(std::uint64_t offset_bytes, std::span<std::byte> out) const {
    if (offset_bytes >= bytes_->size()) return 0;
    const std::size_t size = std::min(out.size(), bytes_->size() - offset_bytes);
    if (size > 0) std::memcpy(out.data(), bytes_->data() + offset_bytes, size);
    return size;
  }

 private:
  const std::string key_;
  const Bytes bytes_;
  const ObjectInfo info_;
};

/// What was asked for last comes first, so that nobody relies on an order.
class MemorySource final : public RangeSource {
 public:
  MemorySource(std::uint32_t depth, const MemoryStore::Fault& fault)
      : depth_(depth), fault_(fault) {}

  std::uint32_t depth_max() const noexcept override { return depth_; }
  Result<std::size_t> submit(std::span<const Request> requests) override {
    const std::size_t count = std::min(requests.size(), depth_ - waiting_.size());
    waiting_.insert(waiting_.end(), requests.begin(),
                    requests.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds /*timeout*/) override {
    std::size_t count = 0;
    for (; count < std::max<std::size_t>(count_min, 1) && count < out.size() && !waiting_.empty();
         ++count) {
      out[count] = {.tag = waiting_.back().tag, .result = perform(waiting_.back())};
      waiting_.pop_back();
    }
    return count;
  }
  std::size_t in_flight() const noexcept override { return waiting_.size(); }
  Status cancel(std::uint64_t /*tag*/) override { return {}; }

 private:
  std::int64_t perform(const Request& request) const {
    const auto& object = static_cast<const MemoryObject&>(*request.object);
    const int failed = fault_ ? fault_(object, request.offset_bytes, request.buffer.size()) : 0;
    if (failed != 0) return -failed;
    return static_cast<std::int64_t>(object.copy(request.offset_bytes, request.buffer));
  }

  const std::uint32_t depth_;
  const MemoryStore::Fault& fault_;
  std::vector<Request> waiting_;
};

/// "a/" of "a"; nothing for the top.
std::string prefix_of(const std::string& folder) {
  return folder == "." ? "" : folder + "/";
}

}  // namespace

class MemoryUpload final : public Upload {
 public:
  MemoryUpload(MemoryStore& store, std::string key) : store_(store), key_(std::move(key)) {}

  Status append(std::span<const std::byte> data) override {
    bytes_.insert(bytes_.end(), data.begin(), data.end());
    return {};
  }
  Result<ObjectInfo> commit() && override { return put(true); }
  Result<ObjectInfo> commit_if_absent() && override { return put(false); }

 private:
  Result<ObjectInfo> put(bool may_replace) {
    const auto bytes = std::make_shared<const std::vector<std::byte>>(std::move(bytes_));
    STOKER_TRY(store_.put(key_, bytes, may_replace));
    return info_of(*bytes);
  }

  MemoryStore& store_;
  const std::string key_;
  std::vector<std::byte> bytes_;
};

Result<std::unique_ptr<const Object>> MemoryStore::open(const std::string& key,
                                                        CachePolicy /*policy*/) {
  Bytes bytes;
  {
    MutexLock lock(mutex_);
    const auto found = objects_.find(key);
    if (found != objects_.end()) bytes = found->second;
  }
  if (bytes) return std::unique_ptr<const Object>(std::make_unique<MemoryObject>(key, bytes));
  if (look(key).ok()) return Status(Code::invalid_argument, key + ": is a folder", EISDIR);
  return missing(key);
}

Result<ObjectStore::Entry> MemoryStore::look(const std::string& key) {
  MutexLock lock(mutex_);
  if (const auto found = objects_.find(key); found != objects_.end())
    return Entry{.kind = Kind::object, .info = info_of(*found->second)};
  const auto next = objects_.lower_bound(prefix_of(key));
  if (key == "." || (next != objects_.end() && next->first.starts_with(prefix_of(key))))
    return Entry{.kind = Kind::folder};
  return missing(key);
}

Status MemoryStore::list(const std::string& folder, const Found& found) {
  std::map<std::string, Kind> names;
  {
    MutexLock lock(mutex_);
    const std::string prefix = prefix_of(folder);
    for (auto at = objects_.lower_bound(prefix);
         at != objects_.end() && at->first.starts_with(prefix); ++at) {
      const std::string rest = at->first.substr(prefix.size());
      const std::size_t slash = rest.find('/');
      names.emplace(rest.substr(0, slash),
                    slash == std::string::npos ? Kind::object : Kind::folder);
    }
  }
  if (names.empty() && folder != ".") return missing(folder);
  for (const auto& [name, kind] : names)
    if (!found(name, kind)) break;
  return {};
}

Result<std::unique_ptr<RangeSource>> MemoryStore::make_source(std::uint32_t depth) {
  return std::unique_ptr<RangeSource>(std::make_unique<MemorySource>(depth, fault_));
}

Result<std::unique_ptr<Upload>> MemoryStore::upload(const std::string& key) {
  return std::unique_ptr<Upload>(std::make_unique<MemoryUpload>(*this, key));
}

Status MemoryStore::put(const std::string& key, Bytes bytes, bool may_replace) {
  MutexLock lock(mutex_);
  Bytes& place = objects_[key];
  if (place && !may_replace) return {Code::already_exists, key + ": the object exists", EEXIST};
  place = std::move(bytes);
  return {};
}

Status MemoryStore::remove(const std::string& key) {
  MutexLock lock(mutex_);
  objects_.erase(key);
  return {};
}

void copy_files(const std::string& directory, ObjectStore& to, const std::string& folder) {
  namespace fs = std::filesystem;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(directory)) {
    const std::string name = fs::relative(entry.path(), directory).string();
    if (!entry.is_regular_file() || name.starts_with(".stoker/")) continue;
    const std::string bytes = contents_of(entry.path().string());
    auto upload = to.upload(folder + "/" + name);
    ASSERT_TRUE(upload.ok()) << upload.status().message();
    ASSERT_TRUE((*upload)->append(std::as_bytes(std::span(bytes))).ok());
    const auto info = std::move(**upload).commit();
    ASSERT_TRUE(info.ok()) << info.status().message();
  }
}

}  // namespace stoker::testing
