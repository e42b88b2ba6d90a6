// Faults between the store and a real server, one at each request, or at all of them.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "stoker/copy.h"
#include "store/s3/s3_fixture.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPart = std::size_t{5} << 20;

Fault answer(int status, const std::string& code = "", const std::string& headers = "") {
  return {
      .kind = Fault::Kind::answer,
      .status = status,
      .headers = headers,
      .body = code.empty() ? "" : "<Error><Code>" + code + "</Code><Message>m</Message></Error>"};
}

/// Does everything that a store does, and says what was wrong.
Status use_all(ObjectStore& store, const std::string& folder, const std::string& text) {
  const std::string key = folder + "/a";
  STOKER_ASSIGN(const std::unique_ptr<Upload> upload, store.upload(key));
  STOKER_TRY(upload->append(std::as_bytes(std::span(text))));
  STOKER_ASSIGN(const ObjectInfo info, std::move(*upload).commit_if_absent());
  STOKER_ASSIGN(const std::unique_ptr<const Object> object, store.open(key));
  if (object->info() != info) return {Code::corrupt, "another version"};
  std::string read(text.size(), '\0');
  STOKER_TRY(object->read(0, read.size(), std::as_writable_bytes(std::span(read))).status());
  if (read != text) return {Code::corrupt, "other bytes"};
  std::string names;
  STOKER_TRY(store.list(folder, [&](const std::string& name, ObjectStore::Kind) {
    names += name + " ";
    return true;
  }));
  if (names != "a ") return {Code::corrupt, "other names: " + names};
  STOKER_ASSIGN(const ObjectStore::Entry entry, store.look(folder));
  if (entry.kind != ObjectStore::Kind::folder) return {Code::corrupt, "no folder"};
  STOKER_TRY(store.remove(key));
  if (store.look(key).status().code() != Code::not_found) return {Code::corrupt, "not removed"};
  return {};
}

/// A fault, and what tests call it.
struct NamedFault {
  const char* name;
  Fault fault;
};

class S3TransientFaultTest : public S3FaultTest, public ::testing::WithParamInterface<NamedFault> {
 protected:
  /// An error under status 200 comes in a body that is text.
  static bool may_happen(const ProxiedRequest& request) {
    const bool is_text =
        request.method != "HEAD" && request.head.find("Range:") == std::string::npos;
    return is_text || GetParam().fault.kind != Kind::answer || GetParam().fault.status != 200;
  }
  using Use = std::function<Status(ObjectStore&, const std::string& name)>;

  /// Runs `use` with the fault at the first request, then at the second, and so on, until there are
  /// no more.
  void sweep(const Use& use) {
    for (std::size_t at = 0;; ++at) {
      ASSERT_LT(at, 100U);
      Status status = use_with_fault(at, 200ms, use);
      // A server on a busy machine pauses for longer by itself, again and again.
      for (auto stall = 400ms; status.os_error() == ETIMEDOUT && stall < 20s; stall *= 2) {
        orphans();
        status = use_with_fault(at, stall, use);
      }
      EXPECT_TRUE(status.ok()) << "request " << at << ": " << status.message();
      // If the answer to a request that begins an upload is lost, only a sweep knows of it.
      EXPECT_LE(orphans(), std::max<std::size_t>(begun_count_, 1) - 1) << "request " << at;
      if (proxy_->request_count() <= at) return;
    }
  }

 private:
  Status use_with_fault(std::size_t at, std::chrono::milliseconds stall, const Use& use) {
    begun_count_ = 0;
    S3Options options = through([this, at](const ProxiedRequest& request, std::size_t number) {
      if (request.target.find("?uploads=") != std::string::npos) ++begun_count_;
      return number == at && may_happen(request) ? GetParam().fault : Fault{};
    });
    if (GetParam().fault.kind == Kind::stall || GetParam().fault.kind == Kind::drip)
      options.http.stall_timeout = stall;
    // Keys that expire are fetched again when the server refuses them.
    const S3Credentials keys = options.credentials.fixed;
    std::ofstream(keys_.file("config"))
        << "[default]\ncredential_process = printf '{\"AccessKeyId\": \"" << keys.access_key_id
        << "\", \"SecretAccessKey\": \"" << keys.secret_access_key
        << "\", \"Expiration\": \"2099-01-01T00:00:00Z\"}'\n";
    options.credentials = {.config_file = keys_.file("config")};
    return use(*open_bucket(options), key(std::to_string(++use_count_)));
  }

  const TempDir keys_;
  std::atomic<std::size_t> begun_count_ = 0;
  std::size_t use_count_ = 0;
};

INSTANTIATE_TEST_SUITE_P(
    each, S3TransientFaultTest,
    ::testing::Values(
        NamedFault{"internal_error", answer(500, "InternalError")},
        NamedFault{"slow_down", answer(503, "SlowDown")}, NamedFault{"gateway", answer(502)},
        NamedFault{"too_many", answer(429, "", "Retry-After: 0\r\n")},
        NamedFault{"error_under_200", answer(200, "InternalError")},
        NamedFault{"reset", {.kind = Fault::Kind::reset}},
        NamedFault{"lost_reply", {.kind = Fault::Kind::lose_reply}},
        NamedFault{"truncated", {.kind = Fault::Kind::truncate}},
        NamedFault{"stall", {.kind = Fault::Kind::stall}},
        NamedFault{"spoiled_body", {.kind = Fault::Kind::spoil_body}},
        NamedFault{"slow_body", {.kind = Fault::Kind::drip}},
        NamedFault{"expired_keys", answer(400, "ExpiredToken")},
        NamedFault{"skewed_clock",
                   answer(403, "RequestTimeTooSkewed", "Date: Wed, 01 Jan 2020 00:00:00 GMT\r\n")}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(S3TransientFaultTest, one_at_any_request_changes_nothing) {
  const std::string text = pattern(10'000);
  sweep([&](ObjectStore& store, const std::string& name) { return use_all(store, name, text); });
}

TEST_P(S3TransientFaultTest, one_at_any_request_of_an_upload_in_parts_leaves_it_whole) {
  const std::string text = pattern(kPart + 1000);
  sweep([&](ObjectStore& store, const std::string& name) -> Status {
    STOKER_TRY(put(store, name, text).status());
    STOKER_ASSIGN(const std::string read, get(*open_bucket(ceph_options()), name));
    return read == text ? Status() : Status(Code::corrupt, "other bytes");
  });
}

class S3LastingFaultTest : public S3FaultTest, public ::testing::WithParamInterface<NamedFault> {};

INSTANTIATE_TEST_SUITE_P(
    each, S3LastingFaultTest,
    ::testing::Values(NamedFault{"ignored_range", {.kind = Fault::Kind::ignore_range}},
                      NamedFault{"wrong_content_range", {.kind = Fault::Kind::shift_range}},
                      NamedFault{"endless_body", {.kind = Fault::Kind::endless}}),
    [](const auto& each) { return std::string(each.param.name); });

TEST_P(S3LastingFaultTest, one_at_any_request_is_an_error_in_time_or_changes_nothing) {
  const std::string text = pattern(kPart + 1000);
  for (std::size_t at = 0;; ++at) {
    ASSERT_LT(at, 100U);
    bool is_reached = false;
    S3Options options = through([&](const ProxiedRequest&, std::size_t number) {
      is_reached |= number == at;
      return number == at ? GetParam().fault : Fault{};
    });
    options.http.timeout = 20s;
    const auto store = open_bucket(options);
    const std::string name = key(std::to_string(at));
    const auto begin = std::chrono::steady_clock::now();
    const auto info = put(*store, name, text);
    const auto read = info.ok() ? get(*store, name) : Result<std::string>(info.status());
    if (read.ok()) {
      EXPECT_TRUE(*read == text) << "request " << at;
    } else {
      EXPECT_NE(read.status().message().find(name), std::string_view::npos)
          << read.status().message();
    }
    EXPECT_LT(std::chrono::steady_clock::now() - begin, 2 * options.http.timeout);
    // Whatever was said, the object is there whole or not at all.
    const auto there = get(*open_bucket(ceph_options()), name);
    EXPECT_TRUE(there.ok() ? *there == text : there.status().code() == Code::not_found);
    EXPECT_LE(orphans(), at == 0 ? 1U : 0U) << "request " << at;
    if (!is_reached) return;
  }
}

TEST_F(S3FaultTest, a_list_that_is_stale_names_what_is_not_found) {
  const auto plain = open_bucket(ceph_options());
  ASSERT_TRUE(put(*plain, key("old"), "x").ok());
  std::string stale;
  const auto list = [&](const std::shared_ptr<ObjectStore>& store) {
    std::string names;
    EXPECT_TRUE(store
                    ->list(prefix_,
                           [&](const std::string& name, ObjectStore::Kind) {
                             names += name + " ";
                             return true;
                           })
                    .ok());
    return names;
  };
  const auto store = open_bucket(through([&](const ProxiedRequest& request, std::size_t) {
    const bool is_list = request.target.find("list-type=2") != std::string::npos;
    return is_list && !stale.empty() ? Fault{.kind = Kind::answer, .body = stale} : Fault{};
  }));
  stale = "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>" + key("old") +
          "</Key><Size>1</Size></Contents></ListBucketResult>";
  ASSERT_TRUE(store->remove(key("old")).ok());
  ASSERT_TRUE(put(*store, key("new"), "y").ok());
  EXPECT_EQ(list(store), "old ");
  EXPECT_EQ(store->open(key("old")).status().code(), Code::not_found);
  EXPECT_EQ(*get(*store, key("new")), "y");  // what was written is read, whatever a list says
}

TEST_F(S3FaultTest, an_answer_that_is_wrong_is_an_error_and_no_byte_of_it_is_returned) {
  const std::string text = pattern(100'000);
  const auto plain = open_bucket(ceph_options());
  ASSERT_TRUE(put(*plain, key("a"), text).ok());
  const struct {
    Kind kind;
    Code code;
  } kWrong[] = {{Kind::ignore_range, Code::unsupported},
                {Kind::shift_range, Code::io_error},
                {Kind::endless, Code::io_error}};
  for (const auto& wrong : kWrong) {
    const auto store = open_bucket(through([&](const ProxiedRequest& request, std::size_t) {
      return Fault{.kind = request.method == "GET" ? wrong.kind : Kind::none};
    }));
    const auto object = store->open(key("a"));
    ASSERT_TRUE(object.ok()) << object.status().message();
    std::string into(1000, '-');
    const auto bytes = std::as_writable_bytes(std::span(into));
    const auto read = (*object)->read(7, into.size(), bytes);
    EXPECT_EQ(read.status().code(), wrong.code) << read.status().message();
    EXPECT_NE(read.status().message().find(key("a")), std::string_view::npos);
    EXPECT_EQ(read_range(*store, **object, bytes), -EIO);
    EXPECT_EQ(into, std::string(1000, '-'));
  }
}

TEST_F(S3FaultTest, a_copy_that_fails_says_what_the_server_did) {
  const auto plain = open_bucket(ceph_options());
  ASSERT_TRUE(put(*plain, key("a"), pattern(1000)).ok());
  const auto store = open_bucket(through([](const ProxiedRequest& request, std::size_t) {
    return Fault{.kind = request.method == "GET" ? Kind::shift_range : Kind::none};
  }));
  const TempDir dir;
  const Status status = copy_objects({store, key("a")}, {local_store(), dir.file("a")}).status();
  EXPECT_EQ(status.os_error(), EIO);
  EXPECT_NE(status.message().find("did not send the range"), std::string_view::npos)
      << status.message();
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST_F(S3FaultTest, a_list_of_empty_pages_ends) {
  std::atomic<int> pages = 0;
  const auto store = open_bucket(through([&](const ProxiedRequest&, std::size_t) {
    const std::string token = std::to_string(pages++);
    return Fault{
        .kind = Kind::answer,
        .body = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>" + token +
                "</NextContinuationToken></ListBucketResult>"};
  }));
  const Status status = store->list(key("d"), [](auto&&, auto&&) { return true; });
  EXPECT_EQ(status.code(), Code::corrupt) << status.message();
  EXPECT_GT(pages, 100);
}

TEST_F(S3FaultTest, a_flipped_byte_of_an_answer_is_not_seen_by_the_store) {
  // Neither TCP nor S3 protects an answer end to end: indexes, manifests and caches have checksums.
  const auto plain = open_bucket(ceph_options());
  ASSERT_TRUE(put(*plain, key("a"), "0000").ok());
  const auto store = open_bucket(through([](const ProxiedRequest& request, std::size_t) {
    return Fault{.kind = request.method == "GET" ? Kind::spoil_reply : Kind::none};
  }));
  EXPECT_EQ(*get(*store, key("a")), "0010");
}

TEST_F(S3FaultTest, a_server_that_says_nothing_is_unavailable_when_the_time_is_over) {
  S3Options options =
      through([](const ProxiedRequest&, std::size_t) { return Fault{.kind = Kind::stall}; });
  options.http.timeout = 400ms;
  const auto store = open_bucket(options);
  const auto is_late = [](const Status& status) {
    EXPECT_EQ(status.code(), Code::unavailable) << status.message();
    EXPECT_EQ(status.os_error(), ETIMEDOUT);
    EXPECT_NE(status.message().find("within 400 ms"), std::string_view::npos) << status.message();
  };
  is_late(store->open(key("a")).status());
  is_late(store->look(key("a")).status());
  is_late(store->list(key("a"), [](auto&&, auto&&) { return true; }));
  is_late(store->remove(key("a")));
  is_late(put(*store, key("a"), "x").status());
}

TEST_F(S3FaultTest, retries_add_a_tenth_to_the_load_and_a_fixed_number) {
  S3Options options =
      through([](const ProxiedRequest&, std::size_t) { return answer(503, "SlowDown"); });
  options.http.timeout = 300ms;
  const auto store = open_bucket(options);
  constexpr int kCalls = 100;
  std::vector<std::jthread> threads;
  for (int i = 0; i < kCalls; ++i)
    threads.emplace_back([&] { EXPECT_EQ(store->remove(key("a")).code(), Code::unavailable); });
  const auto begin = std::chrono::steady_clock::now();
  threads.clear();
  const double seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  EXPECT_LE(static_cast<double>(proxy_->request_count()), kCalls * 1.1 + 50 + seconds + 1);
}

TEST_F(S3FaultTest, an_upload_that_fails_for_good_is_aborted) {
  const auto store = open_bucket(through([](const ProxiedRequest& request, std::size_t) {
    const bool is_second = request.target.find("partNumber=2") != std::string::npos;
    return is_second ? answer(403, "AccessDenied") : Fault{};
  }));
  const auto info = put(*store, key("a"), pattern(kPart + 1));
  EXPECT_EQ(info.status().code(), Code::denied) << info.status().message();
  EXPECT_EQ(orphans(), 0U);
  EXPECT_EQ(store->look(key("a")).status().code(), Code::not_found);
}

TEST_F(S3FaultTest, an_upload_that_is_dropped_in_the_middle_is_aborted) {
  S3Options options = ceph_options();
  options.part_bytes = kPart;
  const auto store = open_bucket(options);
  {
    auto upload = store->upload(key("a"));
    const std::string text = pattern(3 * kPart);
    ASSERT_TRUE((*upload)->append(std::as_bytes(std::span(text))).ok());
  }
  EXPECT_EQ(orphans(), 0U);
}

}  // namespace
}  // namespace stoker::testing
