// What S3 asks of a client, on a real server: regions, clocks, keys, large objects, conditions.
#include <gtest/gtest.h>

#include <cerrno>
#include <chrono>
#include <mutex>

#include "store/s3/s3_fixture.h"
#include "store/s3/sigv4.h"

namespace stoker::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kPart = std::size_t{5} << 20;

class S3StoreTest : public S3FaultTest {
 protected:
  static S3Options small_parts(S3Options options) {
    options.part_bytes = kPart;
    return options;
  }
};

TEST_F(S3StoreTest, a_large_object_is_uploaded_in_parts_and_read_back_whole) {
  const auto store = open_bucket(small_parts(ceph_options()));
  const std::string text = pattern(3 * kPart + 12'345);
  auto upload = store->upload(key("a"));
  for (std::size_t at = 0; at < text.size(); at += 777'777)
    ASSERT_TRUE((*upload)
                    ->append(std::as_bytes(std::span(text))
                                 .subspan(at, std::min<std::size_t>(777'777, text.size() - at)))
                    .ok());
  const auto info = std::move(**upload).commit();
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(info->size_bytes, text.size());
  EXPECT_EQ(store->look(key("a"))->info, *info);
  EXPECT_TRUE(*get(*store, key("a")) == text);
  EXPECT_EQ(orphans(), 0U);
}

TEST_F(S3StoreTest, an_object_of_exactly_one_part_takes_one_request) {
  const auto store =
      open_bucket(small_parts(through([](const ProxiedRequest&, std::size_t) { return Fault{}; })));
  ASSERT_TRUE(put(*store, key("a"), pattern(kPart)).ok());
  EXPECT_EQ(proxy_->request_count(), 1U);
}

TEST_F(S3StoreTest, names_with_every_kind_of_character_are_themselves) {
  const auto store = open_bucket(ceph_options());
  for (const char* const name : {"a b", "a+b", "a%20b", "a=b&c;d", "\xc3\xa9~*'()!", "a?b#c",
                                 "x/./y", "x/../z", "<&\">", "a:b@c,d$"}) {
    ASSERT_TRUE(put(*store, key(name), name).ok()) << name;
    EXPECT_EQ(*get(*store, key(name)), name);
  }
  std::vector<std::string> names;
  ASSERT_TRUE(store
                  ->list(key("x"),
                         [&](const std::string& name, ObjectStore::Kind) {
                           names.push_back(name);
                           return true;
                         })
                  .ok());
  EXPECT_EQ(names, (std::vector<std::string>{".", ".."}));
}

TEST_F(S3StoreTest, more_names_than_a_page_has_are_all_listed) {
  const auto page = [](const std::string& rest) {
    return Fault{.kind = Kind::answer, .body = "<ListBucketResult>" + rest + "</ListBucketResult>"};
  };
  const auto store = open_bucket(through([&](const ProxiedRequest& request, std::size_t) {
    if (request.target.find("continuation-token=t%2B1") != std::string::npos)
      return page(
          "<IsTruncated>false</IsTruncated><CommonPrefixes><Prefix>f/b/</Prefix></CommonPrefixes>");
    if (request.target.find("continuation-token=t") !=
        std::string::npos)  // empty, and not the last
      return page(
          "<IsTruncated>true</IsTruncated><NextContinuationToken>t+1</NextContinuationToken>");
    return page(
        "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        "<Contents><Key>f/a</Key><Size>1</Size></Contents>"
        "<Contents><Key>f/</Key><Size>0</Size></Contents>");  // marks a folder: no name
  }));
  std::string names;
  ASSERT_TRUE(store
                  ->list("f",
                         [&](const std::string& name, ObjectStore::Kind) {
                           names += name + " ";
                           return true;
                         })
                  .ok());
  EXPECT_EQ(names, "a b ");
}

TEST_F(S3StoreTest, a_list_that_does_not_advance_is_an_error) {
  const auto store = open_bucket(through([](const ProxiedRequest&, std::size_t) {
    return Fault{.kind = Kind::answer,
                 .body =
                     "<ListBucketResult><IsTruncated>true</IsTruncated>"
                     "<NextContinuationToken>t</NextContinuationToken></ListBucketResult>"};
  }));
  EXPECT_EQ(store->list("f", [](auto&&, auto&&) { return true; }).code(), Code::corrupt);
}

TEST_F(S3StoreTest, a_large_object_is_refused_if_absent_where_the_server_ignores_the_condition) {
  const auto store = open_bucket(small_parts(ceph_options()));
  const auto info = put(*store, key("a"), pattern(kPart + 1), /*if_absent=*/true);
  EXPECT_EQ(info.status().code(), Code::unsupported) << info.status().message();
  EXPECT_EQ(orphans(), 0U);
  EXPECT_EQ(store->look(key("a")).status().code(), Code::not_found);
  EXPECT_EQ(store->look(key("")).status().code(), Code::not_found);  // nothing of the probe either
}

TEST_F(S3StoreTest, a_small_object_is_refused_if_absent_where_the_server_ignores_the_condition) {
  const auto store = open_bucket(through([](const ProxiedRequest& request, std::size_t) {
    const bool is_conditional = request.head.find("If-None-Match") != std::string::npos;
    return is_conditional ? Fault{.kind = Kind::answer, .headers = "ETag: \"e\"\r\n"} : Fault{};
  }));
  EXPECT_EQ(put(*store, key("a"), "x", true).status().code(), Code::unsupported);
}

TEST_F(S3StoreTest,
       a_sweep_aborts_the_uploads_of_its_prefix_that_are_old_by_the_clock_of_the_server) {
  const auto upload = [](const std::string& key, const std::string& initiated) {
    return "<Upload><Key>" + key + "</Key><UploadId>id</UploadId><Initiated>" + initiated +
           "</Initiated></Upload>";
  };
  const std::string page =
      "<ListMultipartUploadsResult><IsTruncated>false</IsTruncated>" +
      upload("p/old", "2020-01-01T10:59:59.000Z") + upload("p/as-old", "2020-01-01T11:00:00.000Z") +
      upload("p/young", "2020-01-01T11:00:01.000Z") + upload("p/later", "2020-01-01T13:00:00Z") +
      upload("p/unknown", "yesterday") + upload("q/old", "2020-01-01T00:00:00Z") +
      "</ListMultipartUploadsResult>";
  std::string date = "Date: Wed, 01 Jan 2020 12:00:00 GMT\r\n";
  std::vector<std::string> aborted;
  const S3Options options = through([&](const ProxiedRequest& request, std::size_t) {
    if (request.method == "GET") return Fault{.kind = Kind::answer, .headers = date, .body = page};
    aborted.push_back(request.method + " " + request.target);
    return Fault{.kind = Kind::answer, .status = 204};
  });
  EXPECT_EQ(*sweep_s3_uploads(ceph_bucket(), options, "p/", 1h), 2U);
  const std::string in_bucket = "DELETE /" + ceph_bucket() + "/p/";
  EXPECT_EQ(aborted, (std::vector<std::string>{in_bucket + "old?uploadId=id",
                                               in_bucket + "as-old?uploadId=id"}));
  date.clear();  // then nothing is known to be old
  EXPECT_EQ(*sweep_s3_uploads(ceph_bucket(), options, "p/", 0s), 0U);
  EXPECT_EQ(aborted.size(), 2U);
}

TEST_F(S3StoreTest,
       a_sweep_leaves_a_young_upload_and_those_of_other_prefixes_which_can_be_completed) {
  const auto store = open_bucket(small_parts(ceph_options()));
  const std::string text = pattern(kPart + 1000);
  const auto begin = [&](const std::string& name) {
    auto upload = store->upload(key(name));
    EXPECT_TRUE((*upload)->append(std::as_bytes(std::span(text))).ok());
    return *std::move(upload);
  };
  auto stale = begin("a/stale");
  auto other = begin("b/other");
  const auto sweep = [&](std::chrono::nanoseconds age) {
    return *sweep_s3_uploads(ceph_bucket(), ceph_options(), key("a/"), age);
  };
  EXPECT_EQ(sweep(1h), 0U);
  EXPECT_EQ(sweep(0s), 1U);
  EXPECT_EQ(sweep(0s), 0U);
  EXPECT_FALSE(std::move(*stale).commit().ok());
  EXPECT_EQ(store->look(key("a/stale")).status().code(), Code::not_found);
  EXPECT_TRUE(std::move(*other).commit().ok());
  EXPECT_TRUE(*get(*store, key("b/other")) == text);
}

TEST_F(S3StoreTest, a_bucket_can_be_named_by_the_host) {
  S3Options options = ceph_options();
  options.addressing = S3Options::Addressing::virtual_host;
  options.endpoint = "http://localhost" + options.endpoint.substr(options.endpoint.rfind(':'));
  const auto store = open_bucket(options);
  const std::string name = key("a b/c+d");
  const auto info = put(*store, name, "text");
  ASSERT_TRUE(info.ok()) << info.status().message();
  EXPECT_EQ(*get(*store, name), "text");
  EXPECT_EQ(*get(*open_bucket(ceph_options()), name), "text");  // and by the path
  EXPECT_EQ(store->look(key("a b"))->kind, ObjectStore::Kind::folder);
  EXPECT_TRUE(store->remove(name).ok());
}

TEST_F(S3StoreTest, another_region_is_learned_once_and_remembered) {
  std::mutex mutex;
  std::vector<std::string> heads;
  const auto store = open_bucket(through([&](const ProxiedRequest& request, std::size_t number) {
    const std::lock_guard lock(mutex);
    heads.push_back(request.head);
    return number == 0 ? Fault{.kind = Kind::answer,
                               .status = 301,
                               .headers = "x-amz-bucket-region: eu-west-1\r\n"}
                       : Fault{};
  }));
  ASSERT_TRUE(put(*store, key("a"), "x").ok());
  EXPECT_EQ(*get(*store, key("a")), "x");
  ASSERT_EQ(heads.size(), 4U);
  EXPECT_NE(heads[0].find("/us-east-1/s3/"), std::string::npos);
  for (std::size_t i = 1; i < 4; ++i) EXPECT_NE(heads[i].find("/eu-west-1/s3/"), std::string::npos);
}

TEST_F(S3StoreTest, a_redirect_to_another_endpoint_is_not_followed) {
  const auto store = open_bucket(through([](const ProxiedRequest&, std::size_t) {
    return Fault{.kind = Kind::answer, .status = 307, .headers = "Location: http://192.0.2.1/\r\n"};
  }));
  EXPECT_EQ(store->open(key("a")).status().code(), Code::unsupported);
  EXPECT_EQ(proxy_->request_count(), 1U);
}

TEST_F(S3StoreTest, the_clock_of_the_server_is_learned_from_a_refusal) {
  // First the server claims to be in 2020, and then the real one refuses what was signed for that.
  const auto store = open_bucket(through([](const ProxiedRequest&, std::size_t number) {
    return number == 0 ? Fault{.kind = Kind::answer,
                               .status = 403,
                               .headers = "Date: Wed, 01 Jan 2020 00:00:00 GMT\r\n",
                               .body = "<Error><Code>RequestTimeTooSkewed</Code></Error>"}
                       : Fault{};
  }));
  EXPECT_TRUE(put(*store, key("a"), "x").ok());
  EXPECT_EQ(proxy_->request_count(), 3U);
  EXPECT_EQ(*get(*store, key("a")), "x");
  EXPECT_EQ(proxy_->request_count(), 5U);
}

TEST_F(S3StoreTest, a_replaced_object_is_not_read_any_more) {
  const auto store = open_bucket(ceph_options());
  ASSERT_TRUE(put(*store, key("a"), "one").ok());
  const auto object = store->open(key("a"));
  ASSERT_TRUE(put(*store, key("a"), "two").ok());
  std::string into(3, '-');
  const auto bytes = std::as_writable_bytes(std::span(into));
  EXPECT_EQ((*object)->read(0, 3, bytes).status().os_error(), ESTALE);
  EXPECT_EQ(read_range(*store, **object, bytes), -ESTALE);
  EXPECT_EQ(into, "---");
  EXPECT_NE(*(*object)->info_now(), (*object)->info());
}

TEST_F(S3StoreTest, encryption_and_the_paying_requester_are_asked_for) {
  std::string head;
  S3Options options = through([&](const ProxiedRequest& request, std::size_t) {
    head = request.head;
    return Fault{.kind = Kind::answer, .headers = "ETag: \"e\"\r\n"};
  });
  options.kms_key_id = "key-1";
  options.is_requester_paying = true;
  const auto store = open_bucket(options);
  ASSERT_TRUE(put(*store, key("a"), "x").ok());
  for (const char* const line : {"\r\nx-amz-server-side-encryption: aws:kms\r\n",
                                 "\r\nx-amz-server-side-encryption-aws-kms-key-id: key-1\r\n",
                                 "\r\nx-amz-request-payer: requester\r\n"})
    EXPECT_NE(head.find(line), std::string::npos) << head;
}

TEST_F(S3StoreTest, requests_are_anonymous_if_that_is_wanted) {
  std::string head;
  S3Options options = through([&](const ProxiedRequest& request, std::size_t) {
    head = request.head;
    return Fault{};
  });
  options.credentials = {.is_anonymous = true};
  EXPECT_EQ(open_bucket(options)->open(key("a")).status().code(), Code::denied);
  EXPECT_EQ(head.find("Authorization"), std::string::npos);
}

TEST_F(S3StoreTest, a_bucket_that_does_not_exist_is_not_found) {
  auto store = s3_store("none-" + prefix_.substr(0, 20), ceph_options());
  ASSERT_TRUE(store.ok());
  EXPECT_EQ((*store)->look(".").status().code(), Code::not_found);
  EXPECT_EQ((*store)->remove("a").code(), Code::not_found);
}

}  // namespace
}  // namespace stoker::testing
