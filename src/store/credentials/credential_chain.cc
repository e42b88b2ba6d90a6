#include "store/credentials/credential_chain.h"

#include <cerrno>
#include <utility>

namespace stoker {
namespace {

/// Keys that never change.
class FixedSource final : public CredentialSource {
 public:
  explicit FixedSource(S3Credentials keys) : keys_(std::move(keys)) {}
  Result<FetchedCredentials> fetch() override { return FetchedCredentials{.keys = keys_}; }

 private:
  const S3Credentials keys_;
};

class MissingSource final : public CredentialSource {
 public:
  Result<FetchedCredentials> fetch() override {
    return Status(Code::denied,
                  "S3: no credentials are set; docs/stores.md lists where they may come from",
                  EACCES);
  }
};

}  // namespace

std::unique_ptr<CredentialSource> make_credential_source(const S3Options& options) {
  const S3CredentialSources& places = options.credentials;
  if (places.is_anonymous) return nullptr;
  if (!places.fixed.access_key_id.empty()) return std::make_unique<FixedSource>(places.fixed);
  return std::make_unique<MissingSource>();
}

}  // namespace stoker
