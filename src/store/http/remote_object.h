/// \file
/// An object behind HTTP, and the source that reads ranges of many: for web servers and for S3.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stoker/store.h"
#include "store/http/http_client.h"

namespace stoker {

/// What a server says of the present version of an object.
struct RemoteVersion {
  ObjectInfo info;
  std::string etag = {};           ///< As it came, in quotes; empty: none.
  std::string last_modified = {};  ///< As it came; used where there is no strong ETag.
};

/// Reads the answer to a HEAD. `unsupported` for an answer without a size.
Result<RemoteVersion> version_of(const HttpResponse& response);

/// Makes the number that stands for an ETag.
std::int64_t version_number(std::string_view etag);

/// Asks for the present version of an object.
Result<RemoteVersion> head_object(HttpClient& client, const std::string& key);

/// Reads only the version that it was opened with. Long reads are split into several requests.
///
/// Thread safety: as Object.
class RemoteObject final : public Object {
 public:
  /// The client must outlive the object.
  RemoteObject(HttpClient& client, std::string key, RemoteVersion version)
      : client_(client), key_(std::move(key)), version_(std::move(version)) {}

  const std::string& key() const noexcept override { return key_; }
  const ObjectInfo& info() const noexcept override { return version_.info; }
  Result<ObjectInfo> info_now() const override;
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const override;

  /// Returns how many bytes of a range the object has.
  std::uint64_t clamp(std::uint64_t offset_bytes, std::uint64_t size_bytes) const noexcept;
  /// Makes the call that reads a range, which must be within the object and not empty.
  HttpCall range_call(std::uint64_t offset_bytes, std::vector<std::span<std::byte>> into) const;

 private:
  HttpClient& client_;
  const std::string key_;
  const RemoteVersion version_;
};

/// Makes a source for RemoteObjects of one client, which must outlive it.
Result<std::unique_ptr<RangeSource>> make_remote_source(HttpClient& client, std::uint32_t depth);

}  // namespace stoker
