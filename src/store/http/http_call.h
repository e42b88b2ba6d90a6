/// \file
/// One thing to ask of a server: what to send, where the answer goes, and what became of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "stoker/status.h"

namespace stoker {

/// A name and its value.
using NameValue = std::pair<std::string, std::string>;

/// One attempt, ready to be sent.
struct HttpRequest {
  std::string method = "GET";
  std::string url = {};                   ///< Complete and encoded.
  std::vector<std::string> headers = {};  ///< "Name: value"
  std::span<const std::byte> body = {};   ///< Borrowed until the call is finished.
};

struct HttpResponse {
  int status = 0;                       ///< 0: none came.
  std::vector<NameValue> headers = {};  ///< Names in lower case.
  std::string body = {};                ///< What did not go into the memory of a range.

  /// Returns the first value of a header, given in lower case, or "".
  std::string_view header(std::string_view name) const noexcept;
};

/// What a ranged read must be answered with: exactly these bytes of exactly this version.
struct WantedRange {
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;                 ///< Not 0, and within the object.
  std::uint64_t object_bytes = 0;               ///< Size of the whole object.
  std::string etag = {};                        ///< Empty: the server has none.
  std::vector<std::span<std::byte>> into = {};  ///< Of `size_bytes` together. Borrowed.
};

/// What to do after an attempt.
struct Verdict {
  enum class Next : std::uint8_t {
    done,   ///< The call is finished, with `status`.
    again,  ///< Send it again at once: what was wrong with it has been corrected.
    retry,  ///< Send it again later, if there is time and budget; otherwise done with `status`.
  };
  Next next = Next::done;
  Status status = {};
  bool is_throttled = false;  ///< The server asked for fewer requests.
  nanoseconds wait{0};        ///< At least this long, because the server said so.
};

/// A request as it is meant, from which each attempt is made, and the state of its attempts.
/// Belongs to the caller, and is borrowed by a session until it is finished.
struct HttpCall {
  std::string method = "GET";
  std::string key = {};  ///< Of the object; "" for the top of the store.
  std::vector<NameValue> query = {};
  std::vector<NameValue> headers = {};
  std::span<const std::byte> body = {};
  std::optional<WantedRange> range = {};
  nanoseconds timeout{0};  ///< 0: that of the options.

  // What became of it.
  Status status = {};  ///< Of a finished call; OK for an answer of the kind asked for.
  HttpResponse response = {};
  std::uint32_t attempt_count = 0;
  bool may_have_arrived = false;  ///< An attempt was sent and its answer was lost.

  // For the protocol, which remembers here what it has corrected once.
  std::string moved_to = {};
  std::uint32_t correction_count = 0;
  bool is_refreshed = false;
  std::string access_key_id = {};  ///< Those of the last attempt.
  std::string region = {};
  std::int64_t ahead_seconds = 0;
};

/// What differs between a web server and S3. Called by sessions on any thread.
///
/// Thread safety: every method from any thread.
class HttpProtocol {
 public:
  virtual ~HttpProtocol() = default;
  /// Makes one attempt. An error ends the call.
  virtual Result<HttpRequest> make_request(HttpCall& call) = 0;
  /// Says what an answer means. The range of a 206 has been checked before.
  virtual Verdict judge(HttpCall& call, const HttpResponse& response) = 0;
  /// Returns how messages name the object of a key.
  virtual std::string name_of(const std::string& key) const = 0;
};

/// Returns what the status of an answer means without a body that says more: the codes that a
/// caller can act upon, retries for 408, 429 and most of 5xx, with the time of a Retry-After
/// header. `detail` is added to the message.
Verdict judge_status(const HttpResponse& response, std::string_view detail);

/// Checks the head of the answer to a ranged read. `unavailable` (ESTALE) for another version.
Status check_range_answer(const WantedRange& range, const HttpResponse& response);

}  // namespace stoker
