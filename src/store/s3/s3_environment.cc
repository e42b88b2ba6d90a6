// Implements the two from_environment() of stoker/store.h: no other code of the stores reads the
// environment.
#include <cstdlib>
#include <initializer_list>
#include <string>

#include "stoker/store.h"
#include "store/credentials/aws_profile.h"

namespace stoker {
namespace {

std::string first_set(std::initializer_list<const char*> names) {
  for (const char* const name : names)
    if (const char* const value = std::getenv(name); value != nullptr && *value != '\0')
      return value;
  return {};
}

std::string in_home(const std::string& set, const char* name) {
  if (!set.empty()) return set;
  const std::string home = first_set({"HOME"});
  return home.empty() ? std::string() : home + "/.aws/" + name;
}

S3CredentialSources credential_sources() {
  S3CredentialSources places;
  places.fixed.access_key_id = first_set({"AWS_ACCESS_KEY_ID"});
  places.fixed.secret_access_key = first_set({"AWS_SECRET_ACCESS_KEY"});
  places.fixed.session_token = first_set({"AWS_SESSION_TOKEN"});
  places.web_identity_token_file = first_set({"AWS_WEB_IDENTITY_TOKEN_FILE"});
  places.role_arn = first_set({"AWS_ROLE_ARN"});
  places.role_session_name = first_set({"AWS_ROLE_SESSION_NAME"});
  places.sts_endpoint = first_set({"AWS_ENDPOINT_URL_STS"});
  places.profile = first_set({"AWS_PROFILE"});
  places.credentials_file = in_home(first_set({"AWS_SHARED_CREDENTIALS_FILE"}), "credentials");
  places.config_file = in_home(first_set({"AWS_CONFIG_FILE"}), "config");
  const std::string relative = first_set({"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"});
  places.container_url = relative.empty() ? first_set({"AWS_CONTAINER_CREDENTIALS_FULL_URI"})
                                          : "http://169.254.170.2" + relative;
  places.container_token = first_set({"AWS_CONTAINER_AUTHORIZATION_TOKEN"});
  places.container_token_file = first_set({"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"});
  const std::string metadata = first_set({"AWS_EC2_METADATA_SERVICE_ENDPOINT"});
  if (first_set({"AWS_EC2_METADATA_DISABLED"}) != "true")
    places.metadata_url = metadata.empty() ? "http://169.254.169.254" : metadata;
  return places;
}

}  // namespace

HttpOptions HttpOptions::from_environment() {
  HttpOptions options;
  options.ca_file = first_set({"AWS_CA_BUNDLE", "SSL_CERT_FILE"});
  options.http_proxy = first_set({"http_proxy"});  // HTTP_PROXY may be a header of a CGI request
  options.https_proxy = first_set({"HTTPS_PROXY", "https_proxy"});
  options.no_proxy = first_set({"NO_PROXY", "no_proxy"});
  return options;
}

S3Options S3Options::from_environment() {
  S3Options options;
  options.http = HttpOptions::from_environment();
  options.credentials = credential_sources();
  options.endpoint = first_set({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"});
  options.region = first_set({"AWS_REGION", "AWS_DEFAULT_REGION"});
  options.is_requester_paying = first_set({"AWS_REQUEST_PAYER"}) == "requester";
  const std::string& profile = options.credentials.profile;
  // A file that cannot be read is reported when keys are needed.
  const auto settings =
      read_profile(options.credentials.credentials_file, options.credentials.config_file,
                   profile.empty() ? "default" : profile);
  if (!settings.ok() || !*settings) return options;
  const auto take = [&](const char* name, std::string& into) {
    const auto found = (*settings)->find(name);
    if (into.empty() && found != (*settings)->end()) into = found->second;
  };
  take("region", options.region);
  take("endpoint_url", options.endpoint);
  return options;
}

}  // namespace stoker
