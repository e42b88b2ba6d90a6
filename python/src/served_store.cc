#include "served_store.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <span>

#include "base/fork_guard.h"

namespace stoker::python {
namespace {

using namespace std::chrono_literals;

constexpr nanoseconds kTimeout = 60s;

std::uint64_t bytes_of(const std::vector<std::span<std::byte>>& pieces) {
  std::uint64_t bytes = 0;
  for (const std::span<std::byte> piece : pieces) bytes += piece.size();
  return bytes;
}

/// An object as it was when it was opened.
///
/// Thread safety: as Object.
class ServedObject final : public Object {
 public:
  ServedObject(ServedStore& store, std::string key, ObjectInfo info)
      : store_(store), key_(std::move(key)), info_(info) {}

  const std::string& key() const noexcept override { return key_; }
  const ObjectInfo& info() const noexcept override { return info_; }
  Result<ObjectInfo> info_now() const override {
    STOKER_ASSIGN(const ObjectStore::Entry entry, store_.look(key_));
    return entry.info;
  }
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const override {
    const auto errand = store_.start(range(offset_bytes, {memory.first(size_bytes)}));
    STOKER_TRY(store_.perform(errand));
    return memory.first(static_cast<std::size_t>(errand->bytes));
  }

  /// A range, truncated at the end of the object.
  Errand range(std::uint64_t offset_bytes, std::vector<std::span<std::byte>> into) const {
    std::uint64_t left = info_.size_bytes - std::min(info_.size_bytes, offset_bytes);
    for (std::span<std::byte>& piece : into) {
      piece = piece.first(std::min<std::uint64_t>(piece.size(), left));
      left -= piece.size();
    }
    return {.kind = Errand::Kind::read,
            .key = key_,
            .offset_bytes = offset_bytes,
            .into = std::move(into)};
  }

 private:
  ServedStore& store_;
  const std::string key_;
  const ObjectInfo info_;
};

/// Thread safety: none.
class ServedSource final : public RangeSource {
 public:
  ServedSource(ServedStore& store, std::uint32_t depth) : store_(store), depth_(depth) {}
  ~ServedSource() override {
    if (!guard_.is_here()) return;
    for (const auto& errand : errands_) store_.give_up(*errand);
  }

  std::uint32_t depth_max() const noexcept override { return depth_; }
  std::size_t in_flight() const noexcept override { return errands_.size(); }

  Result<std::size_t> submit(std::span<const Request> requests) override {
    STOKER_TRY(guard_.check("this source"));
    const std::size_t count = std::min<std::size_t>(requests.size(), depth_ - errands_.size());
    for (const Request& request : requests.first(count)) {
      std::vector<std::span<std::byte>> into(request.pieces.begin(), request.pieces.end());
      if (into.empty()) into.push_back(request.buffer);
      Errand errand = static_cast<const ServedObject&>(*request.object)
                          .range(request.offset_bytes, std::move(into));
      errand.tag = request.tag;
      errands_.push_back(store_.start(std::move(errand)));
    }
    return count;
  }

  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override {
    STOKER_TRY(guard_.check("this source"));
    const Deadline until = deadline_after(timeout);
    std::size_t count = 0;
    for (;;) {
      std::erase_if(errands_, [&](const std::shared_ptr<Errand>& errand) {
        if (count == out.size() || !store_.is_done(*errand)) return false;
        const int failed = errand->status.os_error() > 0 ? errand->status.os_error() : EIO;
        out[count++] = {.tag = errand->tag,
                        .result = errand->status.ok() ? errand->bytes : -failed};
        return true;
      });
      if (count >= std::min(count_min, out.size()) || errands_.empty() || Clock::now() >= until)
        return count;
      store_.wait(errands_, until);
    }
  }

  Status cancel(std::uint64_t tag) override {
    for (const auto& errand : errands_)
      if (errand->tag == tag) store_.give_up(*errand);
    return {};
  }

 private:
  ServedStore& store_;
  const ForkGuard guard_;
  const std::uint32_t depth_;
  std::vector<std::shared_ptr<Errand>> errands_;
};

}  // namespace

ServedStore::ServedStore(std::string scheme)
    : scheme_(std::move(scheme)), waiting_(new Waiting()) {}

void ServedStore::begin_anew() {
  waiting_.store(new Waiting(), std::memory_order_release);
}

std::shared_ptr<Errand> ServedStore::take() {
  Waiting& waiting = *waiting_.load(std::memory_order_acquire);
  const MutexLock lock(waiting.mutex);
  for (;;) {
    while (waiting.errands.empty()) waiting.changed.wait(waiting.mutex);
    std::shared_ptr<Errand> errand = std::move(waiting.errands.front());
    waiting.errands.pop_front();
    if (!errand->is_given_up) return errand;
  }
}

std::shared_ptr<Errand> ServedStore::start(Errand errand) {
  auto started = std::make_shared<Errand>(std::move(errand));
  started->deadline = deadline_after(kTimeout);
  started->is_done = started->kind == Errand::Kind::read && bytes_of(started->into) == 0;
  if (started->is_done) return started;
  Waiting& waiting = *waiting_.load(std::memory_order_acquire);
  const MutexLock lock(waiting.mutex);
  waiting.errands.push_back(started);
  waiting.changed.notify_all();
  return started;
}

void ServedStore::wait(const std::vector<std::shared_ptr<Errand>>& errands, Deadline until) {
  Waiting& waiting = *waiting_.load(std::memory_order_acquire);
  const MutexLock lock(waiting.mutex);
  for (const auto& errand : errands) until = std::min(until, errand->deadline);
  while (std::ranges::none_of(errands, &Errand::is_done)) {
    if (waiting.changed.wait_until(waiting.mutex, until)) continue;
    for (const auto& errand : errands) {
      if (errand->is_done || Clock::now() < errand->deadline) continue;
      errand->is_given_up = errand->is_done = true;
      errand->status = {Code::unavailable, "the file system did not answer within 60 s", ETIMEDOUT};
    }
    return;
  }
}

void ServedStore::give_up(Errand& errand) {
  Waiting& waiting = *waiting_.load(std::memory_order_acquire);
  const MutexLock lock(waiting.mutex);
  if (errand.is_done) return;
  errand.is_given_up = errand.is_done = true;
  errand.status = {Code::cancelled, "cancelled", ECANCELED};
}

bool ServedStore::is_done(const Errand& errand) {
  Waiting& waiting = *waiting_.load(std::memory_order_acquire);
  const MutexLock lock(waiting.mutex);
  return errand.is_done;
}

Status ServedStore::perform(const std::shared_ptr<Errand>& errand) {
  while (!is_done(*errand)) wait({errand}, Deadline::max());
  return errand->status.with_context(uri_of(errand->key));
}

Result<std::unique_ptr<const Object>> ServedStore::open(const std::string& key,
                                                        CachePolicy /*policy*/) {
  STOKER_ASSIGN(const Entry entry, look(key));
  if (entry.kind != Kind::object)
    return Status(Code::invalid_argument, uri_of(key) + ": is a folder", EISDIR);
  return std::unique_ptr<const Object>(std::make_unique<ServedObject>(*this, key, entry.info));
}

Result<ObjectStore::Entry> ServedStore::look(const std::string& key) {
  const auto errand = start({.kind = Errand::Kind::look, .key = key});
  STOKER_TRY(perform(errand));
  return errand->entry;
}

Status ServedStore::list(const std::string& folder, const Found& found) {
  const auto errand = start({.kind = Errand::Kind::list, .key = folder});
  STOKER_TRY(perform(errand));
  std::ranges::sort(errand->names);
  for (const auto& [name, kind] : errand->names)
    if (!found(name, kind)) break;
  return {};
}

Result<std::unique_ptr<RangeSource>> ServedStore::make_source(std::uint32_t depth) {
  return std::unique_ptr<RangeSource>(
      std::make_unique<ServedSource>(*this, std::clamp(depth, 1U, 64U)));
}

Result<std::unique_ptr<Upload>> ServedStore::upload(const std::string& key) {
  return Status(Code::unsupported, uri_of(key) + ": file systems of fsspec are only read", EROFS);
}

Status ServedStore::remove(const std::string& key) {
  return {Code::unsupported, uri_of(key) + ": file systems of fsspec are only read", EROFS};
}

}  // namespace stoker::python
