/// \file
/// ObjectStore: named byte strings in local files, a bucket or behind a web server.
///
/// Datasets are read from one: that of local files, a bucket, a web server, or one of your own. The
/// interface is crossed once per object, not once per read: open() returns an Object, and many
/// ranges are read through a RangeSource of the store. Local files keep their descriptors, O_DIRECT
/// and the page cache.
///
/// What a store of a program throws ends the call that needed it, with `invalid_argument` and the
/// text of the exception; std::bad_alloc and std::system_error keep their meaning.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "stoker/api.h"
#include "stoker/io.h"
#include "stoker/range_source.h"
#include "stoker/status.h"

namespace stoker {

class File;  // of the library: an open local file

struct ObjectInfo {
  std::uint64_t size_bytes = 0;
  /// Changes when the bytes change: the modification time of a local file, in nanoseconds, or, in
  /// another store, a hash of a version such as an ETag. 0: the store does not know, and the object
  /// is not cached.
  std::int64_t version = 0;

  friend bool operator==(const ObjectInfo&, const ObjectInfo&) = default;
};

/// An object that is open for reading. A read returns bytes of the version that info() reports. If
/// the object was replaced or removed since, a store that does not keep it readable fails the read
/// with `unavailable`; it never returns other bytes. The exception is a local file that is modified
/// in place; compare info_now() with info() to detect that.
///
/// Thread safety: const methods from any thread, also in a forked child.
class STOKER_API Object {
 public:
  Object() = default;
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() = default;

  virtual const std::string& key() const noexcept = 0;
  virtual const ObjectInfo& info() const noexcept = 0;  ///< As of open().
  /// Returns the current state. The default is for objects that cannot change while they are open.
  virtual Result<ObjectInfo> info_now() const { return info(); }

  /// Returns the file of an object of local_store(), which owns it; null for all others.
  virtual const File* file() const noexcept { return nullptr; }

  /// Returns the bytes of memory that read() needs for a range. Exactly `size_bytes` for an object
  /// that was opened with CachePolicy::buffered or that is not a file.
  virtual std::size_t scratch_bytes(std::uint64_t /*offset_bytes*/, std::size_t size_bytes) const {
    return size_bytes;
  }
  /// Reads a range, truncated at the end of the object, and waits. The result is a part of
  /// `memory`, which must have scratch_bytes(), and be aligned to 4096 bytes if that exceeds
  /// `size_bytes`.
  virtual Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                            std::span<std::byte> memory) const = 0;
};

/// Returns a request for a range of an object, to submit to a source that its store has made. A
/// range that extends past the end of the object completes with fewer bytes.
STOKER_API Request request_of(const Object& object, std::uint64_t offset_bytes,
                              std::span<std::byte> buffer);

/// A new object that is being written. It becomes visible when it is committed; the destructor of
/// an uncommitted upload aborts and leaves nothing behind. One of the two commits may be called,
/// once. If it fails and the answer of a remote store was lost, the object may be visible
/// nevertheless.
///
/// Thread safety: none.
class STOKER_API Upload {
 public:
  Upload() = default;
  Upload(const Upload&) = delete;
  Upload& operator=(const Upload&) = delete;
  virtual ~Upload() = default;

  /// After a failure the upload must be abandoned.
  virtual Status append(std::span<const std::byte> data) = 0;

  /// Makes the object visible, atomically replacing any object with the same key. Once this has
  /// returned OK, the object survives a power loss.
  virtual Result<ObjectInfo> commit() && = 0;

  /// Like commit(), but returns `already_exists` if the key is taken: of several concurrent calls,
  /// exactly one succeeds. A store that cannot guarantee this returns `unsupported`.
  virtual Result<ObjectInfo> commit_if_absent() && = 0;
};

/// Keys are names in UTF-8 separated by "/"; each part before a "/" is a folder. Folders need not
/// be created: a folder exists while it contains an object (a local folder also remains
/// afterwards). No key is both an object and a folder. The folder "." is the root: all keys of a
/// bucket, the working directory of the local store, whose keys are paths. Callers may turn "//" in
/// a key into "/", so a key is not a URL. open(), look() and commit() report the same ObjectInfo
/// for the same version of an object. Errors name the key.
///
/// A call ends by itself: a remote store limits each call and each range, and returns
/// `unavailable` (-ETIMEDOUT from a source). A store that cannot be written to returns
/// `unsupported` from upload() and remove().
///
/// Thread safety: every method from any thread, also in a forked child: a store with connections
/// makes new ones there. Uploads and sources belong to the process that made them. The store
/// outlives its objects, uploads and sources.
/// Conformance: an implementation must pass object_store_suite.h, a suite of GoogleTest that is
/// installed in share/stoker/conformance.
class STOKER_API ObjectStore {
 public:
  enum class Kind : std::uint8_t {
    object,
    folder,
    other,  ///< In a local directory: a FIFO, a device, a dangling link.
  };
  /// What a key refers to.
  struct Entry {
    Kind kind = Kind::object;
    ObjectInfo info = {};  ///< Set for objects only.
  };
  /// Called for each name in a folder; must not call the store. Return false to stop.
  using Found = std::function<bool(const std::string& name, Kind kind)>;

  ObjectStore() = default;
  ObjectStore(const ObjectStore&) = delete;
  ObjectStore& operator=(const ObjectStore&) = delete;
  virtual ~ObjectStore() = default;

  /// Whether keys are paths on this machine, so that files can be written, locked and mapped next
  /// to the objects.
  virtual bool is_local() const noexcept { return false; }

  /// Returns a text that identifies an object or a folder in every process and for all time, and
  /// that none of another place has: its URI, for a local file with the inode. It has no
  /// credentials. Empty, as by default, if there is none: what was read is then not cached, and
  /// indexes of datasets are kept in memory.
  virtual std::string identity_of(const std::string& /*key*/) { return {}; }

  /// Returns how users and messages name a key: the URI that open_store() takes, or, as by default,
  /// the key itself. It has no credentials.
  virtual std::string uri_of(const std::string& key) { return key; }

  /// Opens an object for reading. `not_found` if the key does not exist, `invalid_argument` if it
  /// is not an object. `policy` applies to local files only.
  virtual Result<std::unique_ptr<const Object>> open(
      const std::string& key, CachePolicy policy = CachePolicy::automatic) = 0;

  /// Looks up a key. `not_found` if there is neither an object nor a folder of that name.
  virtual Result<Entry> look(const std::string& key) = 0;

  /// Calls `found` for each name directly in a folder, in bytewise order. `not_found` if there is
  /// no such folder.
  virtual Status list(const std::string& folder, const Found& found) = 0;

  /// Returns a source that reads up to `depth` ranges of this store's objects at a time, or fewer
  /// if the store allows fewer; see request_of(). Each thread needs its own source. Objects must
  /// stay open until their requests have completed. The default reads with Object::read(), one
  /// range after the other on the calling thread: for stores that are fast, and as a beginning.
  virtual Result<std::unique_ptr<RangeSource>> make_source(std::uint32_t depth);

  /// Starts writing a new object.
  virtual Result<std::unique_ptr<Upload>> upload(const std::string& key) = 0;

  /// Removes an object. OK also if the key does not exist.
  virtual Status remove(const std::string& key) = 0;
};

/// How requests to a server are made.
struct HttpOptions {
  std::string ca_file = {};      ///< Certificates to trust, as PEM; empty: those of the system.
  std::string http_proxy = {};   ///< For http://, as "http://host:port"; empty: none.
  std::string https_proxy = {};  ///< For https://.
  std::string no_proxy = {};     ///< Hosts that are reached without one, separated by commas.
  /// For each call and each range, retries included.
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);
  std::chrono::nanoseconds connect_timeout = std::chrono::seconds(5);
  /// A transfer that moves less than 1 KiB per second for so long is tried again.
  std::chrono::nanoseconds stall_timeout = std::chrono::seconds(10);
  /// A range that has not arrived after so long is asked for once more, on another connection, and
  /// the first answer counts. Up to 2 % of the requests, and five more. 0: never. Each needs memory
  /// for its range.
  std::chrono::nanoseconds hedge_after = std::chrono::nanoseconds(0);
  std::uint32_t attempts_max = 10;   ///< Of one request.
  std::uint32_t requests_max = 256;  ///< In flight, of all threads that use the store.

  /// Reads AWS_CA_BUNDLE or SSL_CERT_FILE, http_proxy, HTTPS_PROXY or https_proxy, and NO_PROXY or
  /// no_proxy.
  STOKER_API static HttpOptions from_environment();
};

/// Returns a store that reads what a web server has below `url`, such as "https://host/data": keys
/// are paths below it. The server must answer requests for ranges, and should send an ETag; without
/// one, its Last-Modified tells versions apart. The store cannot be written to. It cannot list:
/// list() returns `unsupported`, and look() knows no folders. A redirect is followed only to the
/// same host. `invalid_argument` for a URL with a user, a password or a query.
STOKER_API Result<std::shared_ptr<ObjectStore>> http_store(const std::string& url,
                                                           const HttpOptions& options = {});

/// Access keys. They are never part of a message or a report.
struct S3Credentials {
  std::string access_key_id = {};
  std::string secret_access_key = {};
  std::string session_token = {};
};

/// Where access keys come from: the first of these that is set, in this order. Keys that expire are
/// fetched again before they do.
struct S3CredentialSources {
  bool is_anonymous = false;  ///< Requests are not signed.
  S3Credentials fixed = {};
  /// A role that is assumed with a token from a file (EKS). All three, or none.
  std::string web_identity_token_file = {};
  std::string role_arn = {};
  std::string role_session_name = {};
  std::string sts_endpoint = {};  ///< Empty: that of the region.
  /// A profile with keys, a credential_process or a web identity; used if the files have it.
  std::string profile = {};           ///< Empty: "default".
  std::string credentials_file = {};  ///< "~/.aws/credentials", as an absolute path.
  std::string config_file = {};       ///< "~/.aws/config".
  /// A server beside the container (ECS, EKS pod identity).
  std::string container_url = {};
  std::string container_token = {};
  std::string container_token_file = {};
  std::string metadata_url = {};  ///< Of instance metadata (IMDSv2): "http://169.254.169.254".
};

struct S3Options {
  enum class Addressing : std::uint8_t {
    automatic,     ///< By the host on AWS, by the path on other endpoints and for names with dots.
    path,          ///< https://endpoint/bucket/key
    virtual_host,  ///< https://bucket.endpoint/key
  };

  std::string endpoint = {};  ///< "http://127.0.0.1:7480"; empty: AWS.
  std::string region = {};    ///< Empty: "us-east-1", or the one that the server names.
  Addressing addressing = Addressing::automatic;
  S3CredentialSources credentials = {};
  std::string kms_key_id = {};          ///< New objects are encrypted with it (SSE-KMS).
  bool is_requester_paying = false;     ///< For buckets whose readers pay.
  std::uint64_t part_bytes = 16 << 20;  ///< Larger objects are uploaded in parts; 5 MiB or more.
  std::uint32_t parts_in_flight = 4;    ///< Of one upload; each takes its bytes of memory.
  HttpOptions http = {};

  /// Reads what the tools of AWS read: AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, AWS_REGION or
  /// AWS_DEFAULT_REGION, AWS_PROFILE and the other variables for credentials, AWS_REQUEST_PAYER,
  /// those of HttpOptions, and region and endpoint_url of the profile. docs/stores.md lists them.
  STOKER_API static S3Options from_environment();
};

/// Returns a store for the objects of a bucket: keys are those of the bucket, and folders end
/// where their "/" is. Reads are of the version that was opened. commit_if_absent() is
/// `unsupported` if the server is seen to ignore the condition, for a large object also if it does
/// so only for uploads in parts. `invalid_argument` for a name that no bucket can have, or for an
/// endpoint that is no URL.
STOKER_API Result<std::shared_ptr<ObjectStore>> s3_store(const std::string& bucket,
                                                         const S3Options& options);

/// Aborts the uploads in parts of keys that begin with `prefix` and that were begun more than `age`
/// ago by the server's clock: what died in the middle. Returns how many.
STOKER_API Result<std::uint64_t> sweep_s3_uploads(const std::string& bucket,
                                                  const S3Options& options,
                                                  const std::string& prefix,
                                                  std::chrono::nanoseconds age);

/// Returns the store whose keys are paths as a user writes them: a relative path starts at the
/// working directory, and symbolic links are followed. An upload is published atomically and
/// durably; missing parent directories are created.
STOKER_API std::shared_ptr<ObjectStore> local_store();

/// An object or a folder, and the store that has it.
struct StorePlace {
  std::shared_ptr<ObjectStore> store;
  std::string key;
};

/// Returns what a user names: a path, "file:///path", "s3://bucket/key", "https://host/path". The
/// key is the top folder, ".", if there is nothing below the bucket or the host. Nothing is asked
/// of a server yet. `unsupported` for other schemes, and for the "pipe:" of WebDataset, which would
/// run a command.
STOKER_API Result<StorePlace> open_store(const std::string& uri, const S3Options& options = {});

}  // namespace stoker
