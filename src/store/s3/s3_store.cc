// Implements s3_store() and sweep_s3_uploads() of stoker/store.h.
#include <curl/curl.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <utility>

#include "store/s3/s3_client.h"
#include "store/s3/s3_protocol.h"
#include "store/s3/s3_upload.h"

namespace stoker {
namespace {

/// "a/" of "a"; nothing for the top.
std::string prefix_of(const std::string& folder) {
  if (folder.empty() || folder == ".") return {};
  return folder.ends_with("/") ? folder : folder + "/";
}

/// In a row. Pages without keys are legal: those of a server that skips what was deleted.
constexpr std::uint32_t kEmptyPagesMax = 1000;

/// Thread safety: as ObjectStore.
class S3Store final : public ObjectStore {
 public:
  S3Store(const std::string& bucket, const S3Options& options)
      : root_("s3://" + bucket + "/"), client_(bucket, options) {}

  /// Two endpoints may have buckets of the same name.
  std::string identity_of(const std::string& key) override {
    const std::string& endpoint = client_.options().endpoint;
    return uri_of(key) + (endpoint.empty() ? "" : " at " + endpoint);
  }
  std::string uri_of(const std::string& key) override { return root_ + (key == "." ? "" : key); }

  Result<std::unique_ptr<const Object>> open(const std::string& key,
                                             CachePolicy /*policy*/) override {
    Result<RemoteVersion> version = head(key);
    if (version.ok())
      return std::unique_ptr<const Object>(
          std::make_unique<RemoteObject>(client_.http(), key, *std::move(version)));
    if (version.status().code() != Code::not_found) return version.status();
    STOKER_ASSIGN(const bool is_there, is_folder(key));
    if (!is_there) return version.status();
    return Status(Code::invalid_argument, client_.name_of(key) + ": is a folder", EISDIR);
  }

  Result<Entry> look(const std::string& key) override {
    if (prefix_of(key).empty()) {
      STOKER_TRY(is_folder(key).status());  // the bucket itself, empty or not
      return Entry{.kind = Kind::folder};
    }
    const Result<RemoteVersion> version = head(key);
    if (version.ok()) return Entry{.kind = Kind::object, .info = version->info};
    if (version.status().code() != Code::not_found) return version.status();
    STOKER_ASSIGN(const bool is_there, is_folder(key));
    if (!is_there) return version.status();
    return Entry{.kind = Kind::folder};
  }

  /// Sorts the names itself: S3 has "a-b" before "a/", and the folder "a" comes before "a-b".
  Status list(const std::string& folder, const Found& found) override {
    const std::string prefix = prefix_of(folder);
    std::vector<std::pair<std::string, Kind>> names;
    STOKER_TRY(collect(prefix, names));
    if (names.empty() && !prefix.empty()) {
      STOKER_ASSIGN(const bool is_there, is_folder(folder));
      if (!is_there)
        return {Code::not_found, client_.name_of(folder) + ": there is no such folder", ENOENT};
    }
    std::ranges::sort(names);
    for (const auto& [name, kind] : names)
      if (!found(name, kind)) break;
    return {};
  }

  Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth) override {
    return make_remote_source(client_.http(), depth);
  }
  Result<std::unique_ptr<Upload>> upload(const std::string& key) override {
    return make_s3_upload(client_, key);
  }
  Status remove(const std::string& key) override { return client_.remove(key); }

 private:
  /// Reads are pinned to the ETag, which S3 always has.
  Result<RemoteVersion> head(const std::string& key) {
    Result<RemoteVersion> version = head_object(client_.http(), key);
    if (version.ok() && version->etag.empty())
      return Status(Code::io_error, client_.name_of(key) + ": the server gives it no ETag", EIO);
    return version;
  }

  Result<bool> is_folder(const std::string& key) {
    const std::string prefix = prefix_of(key);
    STOKER_ASSIGN(const ListPage page, client_.list_page(prefix, "", "", 1));
    return !page.keys.empty() && page.keys.front().key.starts_with(prefix);
  }

  Status collect(const std::string& prefix, std::vector<std::pair<std::string, Kind>>& names) {
    constexpr std::uint32_t kPageKeys = 1000;
    constexpr std::size_t kNamesMax = 10'000'000;
    std::string token;
    std::uint32_t empty_pages = 0;
    do {
      const std::size_t count_before = names.size();
      STOKER_ASSIGN(ListPage page, client_.list_page(prefix, "/", token, kPageKeys));
      for (const ListPage::Key& key : page.keys)
        if (key.key.size() > prefix.size() && key.key.starts_with(prefix))
          names.emplace_back(key.key.substr(prefix.size()), Kind::object);
      for (const std::string& found : page.prefixes)
        if (found.size() > prefix.size() + 1 && found.starts_with(prefix))
          names.emplace_back(found.substr(prefix.size(), found.size() - prefix.size() - 1),
                             Kind::folder);
      if (names.size() > kNamesMax)
        return {Code::unsupported, client_.name_of(prefix) + ": more than 10 million names", EFBIG};
      empty_pages = names.size() == count_before ? empty_pages + 1 : 0;
      if (!page.next_token.empty() && (page.next_token == token || empty_pages > kEmptyPagesMax))
        return {Code::corrupt, client_.name_of(prefix) + ": the list does not advance", EIO};
      token = std::move(page.next_token);
    } while (!token.empty());
    return {};
  }

  const std::string root_;
  S3Client client_;
};

/// Returns the seconds since 1970 of "2026-11-19T12:00:00.000Z", or nothing.
std::time_t seconds_of(const std::string& text) {
  std::tm utc{};
  return ::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &utc) == nullptr ? -1 : ::timegm(&utc);
}

}  // namespace

Result<std::shared_ptr<ObjectStore>> s3_store(const std::string& bucket, const S3Options& options) {
  STOKER_TRY(check_s3_options(bucket, options));
  return std::shared_ptr<ObjectStore>(std::make_shared<S3Store>(bucket, options));
}

Result<std::uint64_t> sweep_s3_uploads(const std::string& bucket, const S3Options& options,
                                       const std::string& prefix, std::chrono::nanoseconds age) {
  STOKER_TRY(check_s3_options(bucket, options));
  S3Client client(bucket, options);
  const std::int64_t age_seconds = std::chrono::ceil<std::chrono::seconds>(age).count();
  std::vector<UploadsPage::Upload> stale;
  std::string key_marker;
  std::string id_marker;
  std::uint32_t empty_pages = 0;
  do {
    std::string server_date;
    STOKER_ASSIGN(UploadsPage page,
                  client.uploads_page(prefix, key_marker, id_marker, server_date));
    const std::time_t now = curl_getdate(server_date.c_str(), nullptr);
    for (UploadsPage::Upload& upload : page.uploads) {
      const std::time_t begun = seconds_of(upload.initiated);
      if (now > 0 && begun > 0 && begun + age_seconds <= now && upload.key.starts_with(prefix))
        stale.push_back(std::move(upload));
    }
    empty_pages = page.uploads.empty() ? empty_pages + 1 : 0;
    if (empty_pages > kEmptyPagesMax ||
        (page.next_key == key_marker && page.next_upload_id == id_marker))
      break;
    key_marker = std::move(page.next_key);
    id_marker = std::move(page.next_upload_id);
  } while (!key_marker.empty());
  for (const UploadsPage::Upload& upload : stale)
    STOKER_TRY(client.abort_upload(upload.key, upload.upload_id));
  return stale.size();
}

}  // namespace stoker
