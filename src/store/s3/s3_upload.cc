#include "store/s3/s3_upload.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <utility>
#include <vector>

#include "base/token.h"

namespace stoker {
namespace {

constexpr char kTokenHeader[] = "x-amz-meta-stoker-upload";
const NameValue kIfAbsent = {"If-None-Match", "*"};

std::span<const std::byte> as_bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

bool is_condition_failure(const HttpCall& call) {
  return call.response.status == 412;
}

Result<std::string> begin_upload(S3Client& client, const std::string& key,
                                 const std::string& token) {
  HttpCall call{.method = "POST",
                .key = key,
                .query = {{"uploads", ""}},
                .headers = client.encryption_headers()};
  call.headers.emplace_back(kTokenHeader, token);
  STOKER_TRY(client.http().perform(call));
  Result<std::string> id = parse_upload_id(call.response.body);
  if (!id.ok()) return id.status().with_context(client.name_of(key) + ": begin the upload");
  return id;
}

HttpCall part_call(const std::string& key, const std::string& upload_id, std::size_t number,
                   std::span<const std::byte> bytes) {
  return {.method = "PUT",
          .key = key,
          .query = {{"partNumber", std::to_string(number)}, {"uploadId", upload_id}},
          .body = bytes};
}

/// Keeps a few parts in flight. Protocol of an object with more bytes than a part:
///   1. begin the upload: the server names it
///   2. put parts 1, 2, ...; each is signed with its SHA-256, which the server verifies
///   3. complete the upload: the object appears, whole
///   4. look at the object: it must be as long as what was appended
/// Whatever fails before 3 is followed by an abort, which frees the parts.
///
/// Thread safety: none.
class S3Upload final : public Upload {
 public:
  S3Upload(S3Client& client, std::string key)
      : client_(client), key_(std::move(key)), token_(make_token()) {}

  ~S3Upload() override {
    if (!guard_.is_here()) {  // in a forked child: see HttpClient::Lease
      for (auto& part : in_flight_) static_cast<void>(part.release());
      return;
    }
    abandon();
  }

  Status append(std::span<const std::byte> data) override {
    STOKER_TRY(guard_.check("this upload"));
    STOKER_TRY(failure_);
    while (!data.empty()) {
      const std::size_t room = part_bytes() - buffer_.size();
      if (room == 0) {
        STOKER_TRY(keep(send_part()));
        continue;
      }
      const std::size_t count = std::min(room, data.size());
      buffer_.insert(buffer_.end(), data.begin(),
                     data.begin() + static_cast<std::ptrdiff_t>(count));
      data = data.subspan(count);
      total_bytes_ += count;
    }
    return {};
  }

  Result<ObjectInfo> commit() && override { return publish(false); }
  Result<ObjectInfo> commit_if_absent() && override { return publish(true); }

 private:
  struct Part {
    std::vector<std::byte> bytes;
    std::size_t number = 0;  ///< From 1.
    HttpCall call;
  };

  /// Parts grow, because there may be 10,000 of them: 16 MiB at first are enough for 880 GB.
  std::size_t part_bytes() const {
    constexpr std::size_t kPartsOfOneSize = 1000;
    return client_.options().part_bytes * (1 + etags_.size() / kPartsOfOneSize);
  }

  Status keep(Status status) {
    failure_ = status;
    if (!status.ok()) abandon();
    return status;
  }

  Status send_part() {
    constexpr std::size_t kPartsMax = 10'000;
    if (etags_.size() == kPartsMax)
      return Status(Code::invalid_argument, "more than 10,000 parts; set a larger part_bytes",
                    EFBIG)
          .with_context(client_.name_of(key_));
    if (upload_id_.empty()) {
      STOKER_ASSIGN(upload_id_, begin_upload(client_, key_, token_));
    }
    if (!session_) {
      STOKER_ASSIGN(HttpClient::Lease session, client_.http().borrow());
      session_ = std::make_unique<HttpClient::Lease>(std::move(session));
    }
    while (in_flight_.size() >= client_.options().parts_in_flight) STOKER_TRY(await_part());
    auto& part = in_flight_.emplace_back(std::make_unique<Part>());
    part->bytes = std::move(buffer_);
    buffer_.clear();
    etags_.emplace_back();
    part->number = etags_.size();
    part->call = part_call(key_, upload_id_, part->number, part->bytes);
    (*session_)->start(part->call);
    return drain(nanoseconds(0));
  }

  Status await_part() { return drain(kForever); }

  Status drain(nanoseconds timeout) {
    STOKER_ASSIGN(const std::vector<HttpCall*> finished, (*session_)->poll(timeout));
    Status status;
    for (const HttpCall* const call : finished) {
      const auto part =
          std::ranges::find(in_flight_, call, [](const auto& each) { return &each->call; });
      std::string& etag = etags_[(*part)->number - 1];
      etag = call->response.header("etag");
      if (status.ok()) status = call->status;
      if (status.ok() && etag.empty())
        status = Status(Code::io_error, "the server gave a part no ETag", EIO)
                     .with_context(client_.name_of(key_));
      in_flight_.erase(part);
    }
    return status;
  }

  void abandon() {
    for (const auto& part : in_flight_) (*session_)->stop(part->call);
    in_flight_.clear();
    session_.reset();
    if (upload_id_.empty()) return;
    static_cast<void>(client_.abort_upload(key_, upload_id_));  // a sweep gets what this leaves
    upload_id_.clear();
  }

  Result<ObjectInfo> publish(bool if_absent) {
    STOKER_TRY(guard_.check("this upload"));
    STOKER_TRY(failure_);
    Result<ObjectInfo> info = upload_id_.empty() ? put_whole(if_absent) : put_parts(if_absent);
    failure_ = {Code::invalid_argument, "the upload has ended", EINVAL};
    abandon();
    return info;
  }

  Result<ObjectInfo> put_whole(bool if_absent) {
    if (if_absent) STOKER_TRY(require(honours_conditional_put(client_, key_), "objects"));
    HttpCall call{
        .method = "PUT", .key = key_, .headers = client_.encryption_headers(), .body = buffer_};
    call.headers.emplace_back(kTokenHeader, token_);
    if (if_absent) call.headers.push_back(kIfAbsent);
    const Status status = client_.http().perform(call);
    if (if_absent && is_condition_failure(call)) return lost_race(call);
    STOKER_TRY(status);
    const std::string_view etag = call.response.header("etag");
    if (etag.empty()) return look_back();
    return ObjectInfo{.size_bytes = total_bytes_, .version = version_number(etag)};
  }

  Result<ObjectInfo> put_parts(bool if_absent) {
    if (!buffer_.empty()) STOKER_TRY(send_part());
    while (!in_flight_.empty()) STOKER_TRY(await_part());
    if (if_absent)
      STOKER_TRY(require(honours_conditional_complete(client_, key_), "uploads in parts"));
    const std::string body = make_complete_body(etags_);
    HttpCall call{.method = "POST",
                  .key = key_,
                  .query = {{"uploadId", upload_id_}},
                  .body = as_bytes_of(body)};
    if (if_absent) call.headers.push_back(kIfAbsent);
    const Status status = client_.http().perform(call);
    if (if_absent && is_condition_failure(call)) return lost_race(call);
    // An attempt whose answer was lost may have completed it: then there is no such upload.
    if (!(status.code() == Code::not_found && call.may_have_arrived)) STOKER_TRY(status);
    if (status.ok()) {
      const Result<std::string> etag = parse_completed_etag(call.response.body);
      if (!etag.ok()) return etag.status().with_context(client_.name_of(key_));
    }
    Result<ObjectInfo> info = look_back();
    if (info.ok() || status.ok()) {
      upload_id_.clear();
      return info;
    }
    return status;
  }

  Status require(const Result<bool>& is_honoured, const std::string& what) {
    STOKER_TRY(is_honoured.status());
    if (*is_honoured) return {};
    return Status(Code::unsupported,
                  "the server ignores If-None-Match for " + what +
                      ", so that nothing can be put only if it is absent",
                  EOPNOTSUPP)
        .with_context(client_.name_of(key_));
  }

  /// The key is taken: by this upload, if an attempt arrived whose answer was lost.
  Result<ObjectInfo> lost_race(const HttpCall& call) {
    if (call.may_have_arrived) {
      Result<ObjectInfo> info = look_back();
      if (info.ok()) {
        upload_id_.clear();
        return info;
      }
    }
    return Status(Code::already_exists, "the object exists", EEXIST)
        .with_context(client_.name_of(key_));
  }

  /// Returns what the server now has, which must be what was appended.
  Result<ObjectInfo> look_back() {
    HttpCall call{.method = "HEAD", .key = key_};
    STOKER_TRY(client_.http().perform(call));
    const Result<RemoteVersion> version = version_of(call.response);
    if (!version.ok()) return version.status().with_context(client_.name_of(key_));
    if (call.response.header(kTokenHeader) != token_)
      return Status(Code::unavailable, "the object was replaced at once by another writer", ESTALE)
          .with_context(client_.name_of(key_));
    if (version->info.size_bytes != total_bytes_)
      return Status(Code::corrupt,
                    "the object has " + std::to_string(version->info.size_bytes) + " bytes, and " +
                        std::to_string(total_bytes_) + " were uploaded",
                    EIO)
          .with_context(client_.name_of(key_));
    return version->info;
  }

  S3Client& client_;
  const ForkGuard guard_;
  const std::string key_;
  const std::string token_;  ///< Kept with the object, to know it again.
  std::vector<std::byte> buffer_;
  std::uint64_t total_bytes_ = 0;
  std::string upload_id_;
  std::vector<std::string> etags_;
  std::unique_ptr<HttpClient::Lease> session_;
  std::deque<std::unique_ptr<Part>> in_flight_;
  Status failure_;
};

/// Puts an object that a probe then fails to replace.
Result<std::string> put_probe(S3Client& client, const std::string& key) {
  std::string probe = key + ".stoker-probe-" + make_token();
  HttpCall call{.method = "PUT", .key = probe, .headers = client.encryption_headers()};
  STOKER_TRY(client.http().perform(call));
  return probe;
}

}  // namespace

std::unique_ptr<Upload> make_s3_upload(S3Client& client, std::string key) {
  return std::make_unique<S3Upload>(client, std::move(key));
}

Result<bool> honours_conditional_put(S3Client& client, const std::string& key) {
  if (const Kept known = client.conditional_put.load(std::memory_order_relaxed);
      known != Kept::unknown)
    return known == Kept::yes;
  STOKER_ASSIGN(const std::string probe, put_probe(client, key));
  HttpCall again{.method = "PUT", .key = probe, .headers = client.encryption_headers()};
  again.headers.push_back(kIfAbsent);
  const Status status = client.http().perform(again);
  STOKER_TRY(client.remove(probe));
  const bool is_refused = is_condition_failure(again) || status.code() == Code::unsupported;
  if (!status.ok() && !is_refused) return status;
  const bool is_kept = is_condition_failure(again);
  client.conditional_put.store(is_kept ? Kept::yes : Kept::no, std::memory_order_relaxed);
  return is_kept;
}

Result<bool> honours_conditional_complete(S3Client& client, const std::string& key) {
  if (const Kept known = client.conditional_complete.load(std::memory_order_relaxed);
      known != Kept::unknown)
    return known == Kept::yes;
  STOKER_ASSIGN(const std::string probe, put_probe(client, key));
  STOKER_ASSIGN(const std::string id, begin_upload(client, probe, make_token()));
  const std::string text = "probe";
  HttpCall part = part_call(probe, id, 1, as_bytes_of(text));
  Status status = client.http().perform(part);
  HttpCall complete{.method = "POST", .key = probe, .query = {{"uploadId", id}}};
  const std::string body = make_complete_body({std::string(part.response.header("etag"))});
  complete.body = as_bytes_of(body);
  complete.headers.push_back(kIfAbsent);
  if (status.ok()) status = client.http().perform(complete);
  if (!status.ok()) STOKER_TRY(client.abort_upload(probe, id));
  STOKER_TRY(client.remove(probe));
  const bool is_kept = is_condition_failure(complete);
  if (!status.ok() && !is_kept && status.code() != Code::unsupported) return status;
  client.conditional_complete.store(is_kept ? Kept::yes : Kept::no, std::memory_order_relaxed);
  return is_kept;
}

}  // namespace stoker
