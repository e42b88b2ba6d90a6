// Servers that give keys away, played by a server of canned answers; and what becomes of the keys.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <mutex>

#include "store/credentials/credential_chain.h"
#include "store/s3/s3_fixture.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using namespace std::chrono_literals;

/// Answers that contain the keys of the Ceph cluster, for an hour or already over.
class KeyServersTest : public S3FaultTest {
 protected:
  static std::string json_keys(const std::string& expires = "2099-01-01T00:00:00Z") {
    const S3Credentials keys = ceph_options().credentials.fixed;
    return R"({"Code": "Success", "AccessKeyId": ")" + keys.access_key_id +
           R"(", "SecretAccessKey": ")" + keys.secret_access_key + R"(", "Expiration": ")" +
           expires + R"("})";
  }
  static Fault say(const std::string& body, int status = 200) {
    return {.kind = Kind::answer, .status = status, .body = body};
  }
  /// Starts the server; each of its requests must be one that `choose` expects.
  std::string serve(ChooseFault choose) {
    server_ = std::make_unique<FaultProxy>("", std::move(choose));
    return server_->url();
  }
  Result<FetchedCredentials> fetch() {
    options_.http.attempts_max = 1;
    return make_credential_source(options_)->fetch();
  }
  void expect_ceph_keys() {
    const auto fetched = fetch();
    ASSERT_TRUE(fetched.ok()) << fetched.status().message();
    EXPECT_EQ(fetched->keys.access_key_id, ceph_options().credentials.fixed.access_key_id);
    EXPECT_EQ(fetched->keys.secret_access_key, ceph_options().credentials.fixed.secret_access_key);
    EXPECT_TRUE(fetched->expires.has_value());
  }

  const TempDir dir_;
  S3Options options_;
  std::unique_ptr<FaultProxy> server_;
};

TEST_F(KeyServersTest, a_container_server_is_shown_the_token_of_its_file) {
  std::ofstream(dir_.file("token")) << "canary-token\n";
  options_.credentials.container_token_file = dir_.file("token");
  options_.credentials.container_url =
      serve([](const ProxiedRequest& request, std::size_t) {
        const bool is_shown =
            request.head.find("\r\nAuthorization: canary-token\r\n") != std::string::npos;
        return is_shown && request.target == "/v1/keys" ? say(json_keys()) : say("", 403);
      }) +
      "/v1/keys";
  expect_ceph_keys();
}

TEST_F(KeyServersTest, instance_metadata_is_asked_with_a_token_alone) {
  options_.credentials.metadata_url = serve([](const ProxiedRequest& request, std::size_t number) {
    const std::string path = "/latest/meta-data/iam/security-credentials/";
    if (number == 0)
      return request.method == "PUT" && request.target == "/latest/api/token" &&
                     request.head.find("X-aws-ec2-metadata-token-ttl-seconds") != std::string::npos
                 ? say("canary-token")
                 : say("", 400);
    if (request.head.find("X-aws-ec2-metadata-token: canary-token\r\n") == std::string::npos)
      return say("", 401);
    if (request.target == path) return say("role a");
    return request.target == path + "role%20a" ? say(json_keys()) : say("", 404);
  });
  expect_ceph_keys();
  EXPECT_EQ(server_->request_count(), 3U);
}

TEST_F(KeyServersTest, a_web_identity_is_exchanged_for_keys) {
  std::ofstream(dir_.file("token")) << "canary/token+\n";
  options_.credentials.web_identity_token_file = dir_.file("token");
  options_.credentials.role_arn = "arn:aws:iam::1:role/r";
  options_.credentials.sts_endpoint = serve([](const ProxiedRequest& request, std::size_t) {
    const S3Credentials keys = ceph_options().credentials.fixed;
    const bool is_right = request.method == "POST" &&
                          request.body ==
                              "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%"
                              "3Aaws%3Aiam%3A%3A1%3Arole%2Fr"
                              "&RoleSessionName=stoker&WebIdentityToken=canary%2Ftoken%2B";
    if (!is_right || request.head.find("Content-Type: application/x-www-form-urlencoded\r\n") ==
                         std::string::npos)
      return say("", 400);
    return say(
        "<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>"
        "<AccessKeyId>" +
        keys.access_key_id + "</AccessKeyId><SecretAccessKey>" + keys.secret_access_key +
        "</SecretAccessKey><SessionToken>t</SessionToken>"
        "<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>"
        "</AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>");
  });
  expect_ceph_keys();
}

/// Sets variables of the environment for a while.
class Variables {
 public:
  Variables(std::vector<std::string> names, const std::string& value) : names_(std::move(names)) {
    for (const std::string& name : names_) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() {
    for (const std::string& name : names_) ::unsetenv(name.c_str());
  }
  Variables(const Variables&) = delete;
  Variables& operator=(const Variables&) = delete;

 private:
  const std::vector<std::string> names_;
};

TEST_F(KeyServersTest, a_proxy_is_asked_for_objects_and_never_for_keys) {
  std::mutex mutex;
  std::vector<std::string> targets;
  const FaultProxy proxy("", [&](const ProxiedRequest& request, std::size_t) {
    const std::lock_guard lock(mutex);
    targets.push_back(request.target);
    return say("<Error><Code>AccessDenied</Code></Error>", 403);
  });
  const Variables variables({"http_proxy", "https_proxy", "all_proxy", "ALL_PROXY"}, proxy.url());
  options_.http = HttpOptions::from_environment();
  ASSERT_EQ(options_.http.http_proxy, proxy.url());
  const std::string url = serve([](const ProxiedRequest& request, std::size_t) {
    return request.target.ends_with("credentials/") ? say("role") : say(json_keys());
  });
  options_.credentials = {.container_url = url};
  expect_ceph_keys();
  EXPECT_EQ(server_->request_count(), 1U);
  options_.credentials = {.metadata_url = url};
  expect_ceph_keys();
  EXPECT_EQ(server_->request_count(), 4U);
  EXPECT_EQ(proxy.request_count(), 0U);

  S3Options options = ceph_options();
  options.http = HttpOptions::from_environment();
  options.credentials = {.container_url = url};
  EXPECT_EQ(open_bucket(options)->open(key("a")).status().code(), Code::denied);
  EXPECT_EQ(targets,
            std::vector<std::string>{options.endpoint + "/" + ceph_bucket() + "/" + key("a")});
  for (const char* const name : {"NO_PROXY", "no_proxy"}) {
    const Variables direct({name}, "example.com,127.0.0.1");
    options.http = HttpOptions::from_environment();
    EXPECT_EQ(open_bucket(options)->open(key("a")).status().code(), Code::not_found) << name;
  }
  const Variables direct({"NO_PROXY"}, "example.com");
  options.http = HttpOptions::from_environment();
  EXPECT_EQ(open_bucket(options)->open(key("a")).status().code(), Code::denied);
  EXPECT_EQ(proxy.request_count(), 2U);
}

TEST_F(KeyServersTest, keys_that_expire_under_a_request_are_fetched_again_once) {
  const std::string url =
      serve([](const ProxiedRequest&, std::size_t) { return say(json_keys()); });
  for (const int refused_count : {1, 100}) {
    S3Options options = through([&](const ProxiedRequest&, std::size_t number) {
      return number < static_cast<std::size_t>(refused_count)
                 ? say("<Error><Code>ExpiredToken</Code><Message>m</Message></Error>", 400)
                 : Fault{};
    });
    options.credentials = {.container_url = url};
    const std::size_t before = server_->request_count();
    const auto info = put(*open_bucket(options), key("a"), "x");
    EXPECT_EQ(info.ok(), refused_count == 1) << info.status().message();
    EXPECT_EQ(server_->request_count() - before, 2U);
    EXPECT_EQ(proxy_->request_count(), 2U);
  }
}

TEST_F(KeyServersTest, no_secret_is_in_any_message) {
  const S3Credentials canary{.access_key_id = "AKCANARY",
                             .secret_access_key = "canary-secret",
                             .session_token = "canary-session"};
  std::string messages;
  const auto keep = [&](const Status& status) {
    EXPECT_FALSE(status.ok());
    messages += std::string(status.message()) + "\n";
  };
  for (const Fault& fault :
       {say("", 403),
        say("<Error><Code>SignatureDoesNotMatch</Code><Message>m</Message></Error>", 403),
        say("<Error><Code>ExpiredToken</Code></Error>", 400), say("", 500), say("nonsense"),
        say("", 307), Fault{.kind = Kind::reset}}) {
    S3Options options = through([&](const ProxiedRequest& request, std::size_t) {
      // The secret itself is not even sent.
      EXPECT_EQ(request.head.find(canary.secret_access_key), std::string::npos);
      EXPECT_NE(request.head.find(canary.session_token), std::string::npos);
      return fault;
    });
    options.credentials = {.fixed = canary};
    options.http.attempts_max = 2;
    const auto store = open_bucket(options);
    keep(store->open(key("a")).status());
    keep(store->list(key("a"), [](auto&&, auto&&) { return true; }));
    keep(put(*store, key("a"), "x", true).status());
  }
  options_.credentials.container_token = canary.secret_access_key;
  for (const std::string& body :
       {std::string("canary-secret"), std::string("{\"AccessKeyId\": \"canary-session\"}")}) {
    options_.credentials.container_url =
        serve([&](const ProxiedRequest&, std::size_t) { return say(body); });
    keep(fetch().status());
  }
  EXPECT_EQ(messages.find("canary"), std::string::npos) << messages;
  EXPECT_EQ(messages.find("CANARY"), std::string::npos) << messages;
}

}  // namespace
}  // namespace stoker::testing
