#include "store/credentials/credentials.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <fstream>
#include <thread>

#include "store/credentials/credential_chain.h"
#include "store/credentials/key_servers.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using namespace std::chrono_literals;

/// Gives keys "1", "2", ... that live for a while; fails when told to.
class CountingSource final : public CredentialSource {
 public:
  CountingSource(std::atomic<int>& count, WallTime::duration life, const std::atomic<bool>& fails)
      : count_(count), life_(life), fails_(fails) {}

  Result<FetchedCredentials> fetch() override {
    const int number = ++count_;
    if (fails_) return Status(Code::unavailable, "no");
    return FetchedCredentials{
        .keys = {.access_key_id = std::to_string(number), .secret_access_key = "s"},
        .expires = std::chrono::system_clock::now() + life_};
  }

 private:
  std::atomic<int>& count_;
  const WallTime::duration life_;
  const std::atomic<bool>& fails_;
};

class CredentialsTest : public ::testing::Test {
 protected:
  Credentials make(WallTime::duration life) {
    return Credentials(std::make_unique<CountingSource>(count_, life, fails_));
  }

  std::atomic<int> count_{0};
  std::atomic<bool> fails_{false};
};

TEST_F(CredentialsTest, keys_are_fetched_once_by_all_threads_together) {
  Credentials credentials = make(1h);
  std::barrier together(8);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 8; ++i)
      threads.emplace_back([&] {
        together.arrive_and_wait();
        EXPECT_EQ(credentials.get()->access_key_id, "1");
      });
  }
  EXPECT_EQ(count_, 1);
}

TEST_F(CredentialsTest, keys_that_expire_within_five_minutes_are_fetched_again) {
  Credentials credentials = make(4min);
  EXPECT_EQ(credentials.get()->access_key_id, "1");
  EXPECT_EQ(credentials.get()->access_key_id, "2");
}

TEST_F(CredentialsTest, keys_stay_in_use_while_new_ones_cannot_be_fetched) {
  Credentials credentials = make(4min);
  EXPECT_EQ(credentials.get()->access_key_id, "1");
  fails_ = true;
  EXPECT_EQ(credentials.get()->access_key_id, "1");
  EXPECT_EQ(credentials.get()->access_key_id, "1");
  EXPECT_EQ(count_, 2);  // not asked again at once
}

TEST_F(CredentialsTest, expired_keys_are_never_used) {
  Credentials credentials = make(-1s);
  EXPECT_EQ(credentials.get()->access_key_id, "1");
  fails_ = true;
  EXPECT_EQ(credentials.get().status().code(), Code::unavailable);
}

TEST_F(CredentialsTest, keys_that_a_server_refuses_are_fetched_again) {
  Credentials credentials = make(1h);
  EXPECT_EQ(credentials.get()->access_key_id, "1");
  EXPECT_TRUE(credentials.refuse("1"));
  EXPECT_EQ(credentials.get()->access_key_id, "2");
  EXPECT_TRUE(credentials.refuse("1"));  // of a request that was under way
  EXPECT_EQ(credentials.get()->access_key_id, "2");
}

/// The chain without a network.
class CredentialChainTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::ofstream(dir_.file(name)) << text;
  }
  Result<FetchedCredentials> fetch() {
    options_.credentials.credentials_file = dir_.file("credentials");
    options_.credentials.config_file = dir_.file("config");
    return make_credential_source(options_)->fetch();
  }

  const TempDir dir_;
  S3Options options_;
};

TEST_F(CredentialChainTest, both_files_of_a_profile_count_and_the_credentials_come_first) {
  write("credentials", "[default]\naws_access_key_id=A\naws_secret_access_key=s\n");
  write("config", "[default]\naws_access_key_id=B\naws_session_token=t\n");
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.status().message();
  EXPECT_EQ(fetched->keys.access_key_id, "A");
  EXPECT_EQ(fetched->keys.session_token, "t");
  options_.credentials.fixed = {.access_key_id = "F", .secret_access_key = "s"};
  EXPECT_EQ(fetch()->keys.access_key_id, "F");
}

TEST_F(CredentialChainTest, a_named_profile_must_exist_and_have_keys) {
  options_.credentials.profile = "p";
  EXPECT_EQ(fetch().status().code(), Code::denied);
  write("config", "[profile p]\nregion=x\n");
  EXPECT_EQ(fetch().status().code(), Code::denied);
  write("config", "[profile p]\nsso_session=x\n");
  EXPECT_EQ(fetch().status().code(), Code::unsupported);
}

TEST_F(CredentialChainTest, a_process_prints_keys) {
  write("config",
        "[default]\ncredential_process = printf '{\"Version\": 1, \"AccessKeyId\": \"P\", "
        "\"SecretAccessKey\": \"s\"}'\n");
  const auto fetched = fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.status().message();
  EXPECT_EQ(fetched->keys.access_key_id, "P");
}

TEST_F(CredentialChainTest, a_process_that_fails_hangs_or_prints_something_else_is_named_alone) {
  for (const char* const command :
       {"echo canary; exit 1", "echo canary", "yes canary", "/nonexistent/canary 2>/dev/null"}) {
    const Status status = fetch_from_process(command).status();
    EXPECT_FALSE(status.ok()) << command;
    EXPECT_EQ(status.message().find("canary"), std::string_view::npos) << status.message();
  }
  EXPECT_EQ(fetch_from_process("exec sleep 600", 50ms).status().os_error(), ETIMEDOUT);
}

TEST_F(CredentialChainTest, without_any_place_the_error_says_so) {
  const Status status = fetch().status();
  EXPECT_EQ(status.code(), Code::denied);
  EXPECT_NE(status.message().find("docs/stores.md"), std::string_view::npos) << status.message();
}

TEST_F(CredentialChainTest, a_token_is_not_sent_to_a_server_without_tls) {
  options_.credentials.container_url = "http://192.0.2.1/keys";
  options_.credentials.container_token = "canary";
  const Status status = fetch().status();
  EXPECT_EQ(status.code(), Code::denied);
  EXPECT_EQ(status.message().find("canary"), std::string_view::npos) << status.message();
}

}  // namespace
}  // namespace stoker::testing
