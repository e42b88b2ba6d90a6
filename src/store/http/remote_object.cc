#include "store/http/remote_object.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <deque>
#include <string_view>
#include <utility>

#include "base/checksum.h"

namespace stoker {
namespace {

std::string_view meaning_of(int os_error) {
  switch (os_error) {
    case ESTALE: return "the object was replaced or removed since it was opened";
    case ETIMEDOUT: return "the server did not answer in time, or failed again and again";
    case EACCES: return "the server denies access";
    case EIO: return "the server did not send the range that was asked for";
    default: return {};
  }
}

/// OK if there is no more to say than the errno does.
Status remote_failure(int os_error) {
  const std::string_view meaning = meaning_of(os_error);
  if (meaning.empty()) return {};
  return {Status::from_errno(os_error, "read", "").code(), std::string(meaning), os_error};
}

bool is_strong(std::string_view etag) {
  return !etag.empty() && !etag.starts_with("W/");
}

std::uint64_t bytes_in(const std::vector<std::span<std::byte>>& pieces) {
  std::uint64_t total = 0;
  for (const std::span<std::byte> piece : pieces) total += piece.size();
  return total;
}

/// Returns the first `size_bytes` of some memory.
std::vector<std::span<std::byte>> first_of(std::span<const std::span<std::byte>> pieces,
                                           std::uint64_t size_bytes) {
  std::vector<std::span<std::byte>> out;
  for (const std::span<std::byte> piece : pieces) {
    const std::size_t count = std::min<std::uint64_t>(piece.size(), size_bytes);
    if (count > 0) out.push_back(piece.first(count));
    size_bytes -= count;
  }
  return out;
}

/// Keeps up to `depth` calls in flight on one session.
///
/// Thread safety: none.
class RemoteSource final : public RangeSource {
 public:
  RemoteSource(HttpClient::Lease session, std::uint32_t depth)
      : session_(std::move(session)), depth_(depth) {}
  ~RemoteSource() override {
    if (!guard_.is_here()) {  // in a forked child: see HttpClient::Lease
      for (auto& call : calls_) static_cast<void>(call.release());
      return;
    }
    for (const auto& call : calls_) session_->stop(call->call);
  }

  std::uint32_t depth_max() const noexcept override { return depth_; }
  std::size_t in_flight() const noexcept override { return calls_.size() + done_.size(); }

  Result<std::size_t> submit(std::span<const Request> requests) override {
    STOKER_TRY(guard_.check("this source"));
    const std::size_t count = std::min<std::size_t>(requests.size(), depth_ - in_flight());
    for (const Request& request : requests.first(count)) start(request);
    STOKER_TRY(collect(nanoseconds(0)));
    return count;
  }

  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override {
    STOKER_TRY(guard_.check("this source"));
    const Deadline until = deadline_after(timeout);
    const std::size_t wanted = std::min(std::max<std::size_t>(count_min, 1), out.size());
    bool is_last = done_.size() >= wanted || count_min == 0;
    for (;;) {
      STOKER_TRY(collect(is_last ? nanoseconds(0) : time_left(until)));
      if (is_last || done_.size() >= wanted || calls_.empty()) break;
      is_last = Clock::now() >= until;
    }
    const std::size_t count = std::min(out.size(), done_.size());
    for (Completion& completion : out.first(count)) {
      completion = std::move(done_.front());
      done_.pop_front();
    }
    return count;
  }

  Status cancel(std::uint64_t tag) override {
    for (const auto& call : calls_) {
      if (call->tag != tag) continue;
      session_->stop(call->call);
      done_.push_back({.tag = tag, .result = -ECANCELED});
    }
    std::erase_if(calls_, [&](const auto& call) { return call->tag == tag; });
    return {};
  }

 private:
  struct InFlight {
    HttpCall call;
    std::uint64_t tag = 0;
  };

  void start(const Request& request) {
    const auto& object = static_cast<const RemoteObject&>(*request.object);
    const std::uint64_t size = object.clamp(request.offset_bytes, request.size_bytes());
    if (size == 0) {
      done_.push_back({.tag = request.tag, .result = 0});
      return;
    }
    const std::span<const std::span<std::byte>> whole(&request.buffer, 1);
    auto into = first_of(request.pieces.empty() ? whole : request.pieces, size);
    auto& call = calls_.emplace_back(std::make_unique<InFlight>());
    call->call = object.range_call(request.offset_bytes, std::move(into));
    call->tag = request.tag;
    session_->start(call->call);
  }

  /// Takes what has finished, after waiting for something up to `timeout`.
  Status collect(nanoseconds timeout) {
    STOKER_ASSIGN(const std::vector<HttpCall*> finished, session_->poll(timeout));
    for (const HttpCall* const call : finished) {
      const auto found =
          std::ranges::find(calls_, call, [](const auto& each) { return &each->call; });
      const int os_error = std::max(call->status.os_error(), 0);
      const int failed = call->status.ok() || os_error != 0 ? os_error : EIO;
      const auto size = static_cast<std::int64_t>(call->range->size_bytes);
      done_.push_back({.tag = (*found)->tag,
                       .result = failed == 0 ? size : -failed,
                       .failure = remote_failure(failed)});
      std::swap(*found, calls_.back());
      calls_.pop_back();
    }
    return {};
  }

  HttpClient::Lease session_;
  const ForkGuard guard_;
  const std::uint32_t depth_;
  std::vector<std::unique_ptr<InFlight>> calls_;
  std::deque<Completion> done_;
};

}  // namespace

std::int64_t version_number(std::string_view etag) {
  return static_cast<std::int64_t>(xxh3_128(std::as_bytes(std::span(etag))).low);
}

Result<RemoteVersion> version_of(const HttpResponse& response) {
  const std::string_view size = response.header("content-length");
  RemoteVersion version{.info = {},
                        .etag = std::string(response.header("etag")),
                        .last_modified = std::string(response.header("last-modified"))};
  const auto [end, error] =
      std::from_chars(size.data(), size.data() + size.size(), version.info.size_bytes);
  if (size.empty() || error != std::errc() || end != size.data() + size.size())
    return Status(Code::unsupported, "the server does not say how long the object is", EIO);
  if (response.header("accept-ranges") == "none")
    return Status(Code::unsupported, "the server does not answer requests for ranges", EIO);
  // A weak ETag may stay the same when bytes change.
  const std::string told =
      is_strong(version.etag) ? version.etag : version.last_modified + "/" + std::string(size);
  if (is_strong(version.etag) || !version.last_modified.empty())
    version.info.version = version_number(told);
  return version;
}

Result<RemoteVersion> head_object(HttpClient& client, const std::string& key) {
  HttpCall call{.method = "HEAD", .key = key};
  STOKER_TRY(client.perform(call));
  Result<RemoteVersion> version = version_of(call.response);
  if (!version.ok()) return version.status().with_context(client.name_of(key));
  return version;
}

Result<ObjectInfo> RemoteObject::info_now() const {
  STOKER_ASSIGN(const RemoteVersion now, head_object(client_, key_));
  return now.info;
}

std::uint64_t RemoteObject::clamp(std::uint64_t offset_bytes,
                                  std::uint64_t size_bytes) const noexcept {
  const std::uint64_t end = version_.info.size_bytes;
  return offset_bytes >= end ? 0 : std::min(size_bytes, end - offset_bytes);
}

HttpCall RemoteObject::range_call(std::uint64_t offset_bytes,
                                  std::vector<std::span<std::byte>> into) const {
  const std::uint64_t size = bytes_in(into);
  HttpCall call{.key = key_,
                .headers = {{"Range", "bytes=" + std::to_string(offset_bytes) + "-" +
                                          std::to_string(offset_bytes + size - 1)}},
                .range = WantedRange{.offset_bytes = offset_bytes,
                                     .size_bytes = size,
                                     .object_bytes = version_.info.size_bytes,
                                     .etag = version_.etag,
                                     .into = std::move(into)}};
  if (is_strong(version_.etag)) {
    call.headers.emplace_back("If-Match", version_.etag);
  } else if (!version_.last_modified.empty()) {
    call.headers.emplace_back("If-Unmodified-Since", version_.last_modified);
  }
  return call;
}

/// Splits long reads, because one connection to S3 gives 85 to 90 MB/s.
Result<std::span<std::byte>> RemoteObject::read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                                std::span<std::byte> memory) const {
  constexpr std::size_t kPartBytes = std::size_t{8} << 20;
  constexpr std::size_t kPartsInFlight = 8;
  const std::size_t size = clamp(offset_bytes, size_bytes);
  if (size == 0) return memory.first(0);
  STOKER_ASSIGN(const HttpClient::Lease session, client_.borrow());
  std::deque<HttpCall> calls;
  std::size_t started_bytes = 0;
  std::size_t in_flight = 0;
  Status status;
  while (status.ok() && (started_bytes < size || in_flight > 0)) {
    for (; started_bytes < size && in_flight < kPartsInFlight; ++in_flight) {
      const std::size_t part = std::min(kPartBytes, size - started_bytes);
      calls.push_back(
          range_call(offset_bytes + started_bytes, {memory.subspan(started_bytes, part)}));
      session->start(calls.back());
      started_bytes += part;
    }
    const Result<std::vector<HttpCall*>> finished = session->poll(kForever);
    status = finished.status();
    for (const HttpCall* const call : finished.ok() ? *finished : std::vector<HttpCall*>()) {
      --in_flight;
      if (status.ok()) status = call->status;
    }
  }
  for (HttpCall& call : calls) session->stop(call);
  STOKER_TRY(status);
  return memory.first(size);
}

Result<std::unique_ptr<RangeSource>> make_remote_source(HttpClient& client, std::uint32_t depth) {
  STOKER_ASSIGN(HttpClient::Lease session, client.borrow());
  const std::uint32_t most = std::max(1U, client.options().requests_max);
  return std::unique_ptr<RangeSource>(
      std::make_unique<RemoteSource>(std::move(session), std::clamp(depth, 1U, most)));
}

}  // namespace stoker
