#include "store/credentials/credential_chain.h"

#include <cerrno>
#include <utility>

#include "store/credentials/aws_profile.h"
#include "store/credentials/key_servers.h"

namespace stoker {
namespace {

std::string setting(const IniSection& settings, std::string_view name) {
  const auto found = settings.find(name);
  return found == settings.end() ? std::string() : found->second;
}

/// The first of the places that is set.
///
/// Thread safety: none.
class CredentialChain final : public CredentialSource {
 public:
  explicit CredentialChain(const S3Options& options) : options_(options) {}

  Result<FetchedCredentials> fetch() override {
    const S3CredentialSources& places = options_.credentials;
    if (!places.fixed.access_key_id.empty()) return FetchedCredentials{.keys = places.fixed};
    if (!places.web_identity_token_file.empty())
      return fetch_web_identity(places, options_.region, options_.http);
    const std::string profile = places.profile.empty() ? "default" : places.profile;
    STOKER_ASSIGN(const std::optional<IniSection> settings,
                  read_profile(places.credentials_file, places.config_file, profile));
    if (settings) {
      STOKER_ASSIGN(std::optional<FetchedCredentials> found, from_profile(profile, *settings));
      if (found) return *std::move(found);
    }
    if (!places.profile.empty())
      return Status(Code::denied,
                    settings ? "S3: the profile \"" + profile + "\" has no access keys"
                             : "S3: there is no profile \"" + profile + "\" in " +
                                   places.credentials_file + " or " + places.config_file,
                    EACCES);
    if (!places.container_url.empty()) return fetch_from_container(places, options_.http);
    if (!places.metadata_url.empty()) return fetch_from_metadata(places, options_.http);
    return Status(Code::denied,
                  "S3: no credentials are set; docs/stores.md lists where they may come from",
                  EACCES);
  }

 private:
  /// Returns nothing if the profile is about other things than keys.
  Result<std::optional<FetchedCredentials>> from_profile(const std::string& profile,
                                                         const IniSection& settings) const {
    const S3Credentials keys{.access_key_id = setting(settings, "aws_access_key_id"),
                             .secret_access_key = setting(settings, "aws_secret_access_key"),
                             .session_token = setting(settings, "aws_session_token")};
    if (!keys.access_key_id.empty()) return std::optional(FetchedCredentials{.keys = keys});
    const std::string token_file = setting(settings, "web_identity_token_file");
    if (!token_file.empty()) {
      S3CredentialSources places = options_.credentials;
      places.web_identity_token_file = token_file;
      places.role_arn = setting(settings, "role_arn");
      places.role_session_name = setting(settings, "role_session_name");
      STOKER_ASSIGN(FetchedCredentials fetched,
                    fetch_web_identity(places, options_.region, options_.http));
      return std::optional(std::move(fetched));
    }
    if (const std::string command = setting(settings, "credential_process"); !command.empty()) {
      STOKER_ASSIGN(FetchedCredentials fetched, fetch_from_process(command));
      return std::optional(std::move(fetched));
    }
    for (const char* const other :
         {"sso_session", "sso_start_url", "source_profile", "credential_source", "login_session"})
      if (settings.contains(other))
        return Status(Code::unsupported,
                      "S3: the profile \"" + profile + "\" uses " + other +
                          ", which Stoker cannot; let credential_process run \"aws configure "
                          "export-credentials --format process --profile " +
                          profile + "\" in another profile",
                      EACCES);
    return std::optional<FetchedCredentials>();
  }

  const S3Options& options_;
};

}  // namespace

std::unique_ptr<CredentialSource> make_credential_source(const S3Options& options) {
  if (options.credentials.is_anonymous) return nullptr;
  return std::make_unique<CredentialChain>(options);
}

}  // namespace stoker
