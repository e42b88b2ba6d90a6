// What is particular to web servers, on nginx and on a server of canned answers.
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/token.h"
#include "servers/fault_proxy.h"
#include "servers/servers.h"
#include "stoker/store.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

class HttpStoreTest : public ::testing::Test {
 protected:
  HttpStoreTest() { std::ofstream(nginx_root() + "/" + name_) << "0123456789"; }
  ~HttpStoreTest() override { std::filesystem::remove(nginx_root() + "/" + name_); }

  static std::shared_ptr<ObjectStore> open_web(const std::string& url) {
    auto store = http_store(url);
    EXPECT_TRUE(store.ok()) << store.status().message();
    return store.ok() ? *store : nullptr;
  }
  static Result<std::string> get(ObjectStore& store, const std::string& key) {
    STOKER_ASSIGN(const std::unique_ptr<const Object> object, store.open(key));
    std::string text(object->info().size_bytes, '\0');
    STOKER_TRY(object->read(0, text.size(), std::as_writable_bytes(std::span(text))).status());
    return text;
  }

  const std::string name_ = "web " + make_token();
};

TEST_F(HttpStoreTest, keys_are_below_the_url_and_are_encoded) {
  EXPECT_EQ(*get(*open_web(nginx_url()), name_), "0123456789");
  EXPECT_EQ(*get(*open_web(nginx_url() + "/"), "/" + name_), "0123456789");
  EXPECT_EQ(*get(*open_web(nginx_url() + "/moved-here/"), name_), "0123456789");
}

TEST_F(HttpStoreTest, a_certificate_is_trusted_if_its_authority_is_and_for_its_host_alone) {
  const auto open_tls = [&](const std::string& url, const HttpOptions& options) {
    return get(**http_store(url, options), name_);
  };
  const auto expect_refused = [](const Status& status, const std::string& why) {
    EXPECT_EQ(status.code(), Code::denied) << status.message();
    EXPECT_NE(status.message().find(why), std::string_view::npos) << status.message();
    EXPECT_EQ(status.message().find("attempt"), std::string_view::npos) << status.message();
  };
  const std::string url = nginx_tls_url();
  expect_refused(open_tls(url, {}).status(), "certificate");
  expect_refused(open_tls(url, {}).status(), "set ca_file or AWS_CA_BUNDLE");
  const HttpOptions trusting{.ca_file = nginx_ca_file()};
  EXPECT_EQ(*open_tls(url, trusting), "0123456789");
  const std::string other = "https://127.0.0.1" + url.substr(url.rfind(':'));
  expect_refused(open_tls(other, trusting).status(), "127.0.0.1'");
  expect_refused(open_tls(url, {.ca_file = nginx_root() + "/none"}).status(), "/none");
  ASSERT_EQ(::setenv("AWS_CA_BUNDLE", nginx_ca_file().c_str(), 1), 0);
  const HttpOptions from_environment = HttpOptions::from_environment();
  ASSERT_EQ(::unsetenv("AWS_CA_BUNDLE"), 0);
  EXPECT_EQ(*open_tls(url, from_environment), "0123456789");
}

TEST_F(HttpStoreTest, a_redirect_to_another_host_is_refused_and_named) {
  const Status status = open_web(nginx_url() + "/elsewhere")->open("a").status();
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("http://localhost:1"), std::string_view::npos)
      << status.message();
}

TEST_F(HttpStoreTest, a_redirect_that_goes_in_a_circle_ends) {
  const FaultProxy server("", [](const ProxiedRequest& request, std::size_t) {
    return Fault{.kind = Fault::Kind::answer,
                 .status = 302,
                 .headers = "Location: " + request.target + "x\r\n"};
  });
  const Status status = open_web(server.url())->open("a").status();
  EXPECT_EQ(status.code(), Code::io_error) << status.message();
  EXPECT_LE(server.request_count(), 10U);
}

TEST_F(HttpStoreTest, a_server_without_ranges_is_refused) {
  EXPECT_EQ(get(*open_web(nginx_url() + "/whole"), name_).status().code(), Code::unsupported);
}

TEST_F(HttpStoreTest, a_server_without_sizes_or_with_compression_is_refused) {
  Fault head{.kind = Fault::Kind::answer, .headers = "Accept-Ranges: none\r\n"};
  const FaultProxy server("", [&](const ProxiedRequest&, std::size_t) { return head; });
  EXPECT_EQ(open_web(server.url())->open("a").status().code(), Code::unsupported);
}

TEST_F(HttpStoreTest, without_an_etag_the_time_of_the_object_tells_versions_apart) {
  std::string time = "Thu, 19 Nov 2026 12:00:00 GMT";
  std::string condition;
  const FaultProxy server("", [&](const ProxiedRequest& request, std::size_t) {
    Fault fault{.kind = Fault::Kind::answer, .headers = "Last-Modified: " + time + "\r\n"};
    if (request.method == "GET") {
      condition = request.head;
      fault.status = 206;
      fault.headers += "Content-Range: bytes 0-0/0\r\n";
      fault.body = "x";
    }
    return fault;
  });
  const auto store = open_web(server.url());
  const auto object = store->open("a");
  ASSERT_TRUE(object.ok()) << object.status().message();
  EXPECT_EQ(*(*object)->info_now(), (*object)->info());
  time = "Thu, 19 Nov 2026 12:00:01 GMT";
  EXPECT_NE(*(*object)->info_now(), (*object)->info());
}

TEST_F(HttpStoreTest, nothing_listens_and_nothing_is_waited_for_longer_than_asked) {
  std::string url;
  {
    const FaultProxy gone("", [](const ProxiedRequest&, std::size_t) { return Fault{}; });
    url = gone.url();
  }
  HttpOptions options;
  options.timeout = std::chrono::milliseconds(300);
  const auto store = http_store(url, options);
  const Status status = (*store)->open("a").status();
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_EQ(status.os_error(), ETIMEDOUT);
}

TEST_F(HttpStoreTest, a_range_that_is_cancelled_ends_at_once) {
  const FaultProxy server(nginx_url(), [](const ProxiedRequest& request, std::size_t) {
    return Fault{.kind = request.method == "GET" ? Fault::Kind::stall : Fault::Kind::none};
  });
  const auto store = open_web(server.url());
  const auto object = store->open(name_);
  ASSERT_TRUE(object.ok()) << object.status().message();
  auto source = store->make_source(2);
  std::array<std::byte, 4> into{};
  std::array requests = {request_of(**object, 0, into)};
  requests[0].tag = 7;
  ASSERT_EQ(*(*source)->submit(requests), 1U);
  ASSERT_TRUE((*source)->cancel(7).ok());
  std::array<Completion, 2> done;
  ASSERT_EQ(*(*source)->reap(done, 1, std::chrono::seconds(60)), 1U);
  EXPECT_EQ(done[0].tag, 7U);
  EXPECT_EQ(done[0].result, -ECANCELED);
  EXPECT_EQ((*source)->in_flight(), 0U);
}

TEST_F(HttpStoreTest, a_range_fills_memory_in_pieces) {
  const auto store = open_web(nginx_url());
  const auto object = store->open(name_);
  auto source = store->make_source(2);
  std::string first(3, '-');
  std::string second(20, '-');
  const std::array<std::span<std::byte>, 2> pieces = {std::as_writable_bytes(std::span(first)),
                                                      std::as_writable_bytes(std::span(second))};
  Request request = request_of(**object, 2, {});
  request.pieces = pieces;
  ASSERT_EQ(*(*source)->submit({&request, 1}), 1U);
  std::array<Completion, 1> done;
  ASSERT_EQ(*(*source)->reap(done, 1, std::chrono::seconds(60)), 1U);
  EXPECT_EQ(done[0].result, 8);
  EXPECT_EQ(first + second.substr(0, 5), "23456789");
  EXPECT_EQ(second[5], '-');
}

TEST_F(HttpStoreTest, a_forked_child_makes_connections_of_its_own_and_leaves_those_of_its_parent) {
  const auto store = open_web(nginx_url());
  const auto object = store->open(name_);
  auto source = store->make_source(2);
  std::array<std::byte, 4> into{};
  const std::array requests = {request_of(**object, 0, into)};
  const ChildEnd end = in_child([&] {
    const bool is_refused = !(*source)->submit(requests).ok();
    source->reset();
    const auto text = get(*store, name_);
    return is_refused && text.ok() && *text == "0123456789" ? 0 : 1;
  });
  EXPECT_EQ(end.exit_code, 0);
  ASSERT_EQ(*(*source)->submit(requests), 1U);
  std::array<Completion, 1> done;
  ASSERT_EQ(*(*source)->reap(done, 1, std::chrono::seconds(60)), 1U);
  EXPECT_EQ(done[0].result, 4);
  EXPECT_EQ(*get(*store, name_), "0123456789");
}

}  // namespace
}  // namespace stoker::testing
