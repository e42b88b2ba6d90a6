#pragma once

// What every ObjectStore must do. An implementation is done when it passes this suite:
//
//   INSTANTIATE_TEST_SUITE_P(mine, ObjectStoreSuite,
//                            ::testing::Values(ObjectStoreMaker{"mine", make_mine}),
//                            object_store_name);
//
// It is installed in share/stoker/conformance. A program elsewhere has that folder among its
// include folders, and links stoker::stoker and GTest::gtest_main.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stoker/store.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker::testing {

struct ObjectStoreMaker {
  const char* name;
  std::shared_ptr<ObjectStore> (*make)();
  /// For a store that cannot be written to: makes an object by another way. The tests of writing
  /// are then skipped.
  void (*put)(ObjectStore& store, const std::string& key, const std::string& text) = nullptr;
  /// False for a store whose list() is `unsupported`.
  bool has_list = true;
};

inline std::string object_store_name(const ::testing::TestParamInfo<ObjectStoreMaker>& info) {
  return info.param.name;
}
inline std::ostream& operator<<(std::ostream& out, const ObjectStoreMaker& maker) {
  return out << maker.name;
}

class ObjectStoreSuite : public ::testing::TestWithParam<ObjectStoreMaker> {
 protected:
  using Kind = ObjectStore::Kind;

  /// Keys are below the test's directory, which a store without directories takes for a name.
  std::string key(const std::string& name) const { return dir_.file("top/" + name); }

  static std::string noise(std::size_t size, unsigned seed = 7) {
    std::mt19937_64 random(seed);
    std::string text(size, '\0');
    for (char& c : text) c = static_cast<char>(random());
    return text;
  }

  std::unique_ptr<Upload> upload(const std::string& name, const std::string& text) {
    auto made = store_->upload(key(name));
    EXPECT_TRUE(made.ok()) << made.status().message();
    if (!made.ok()) return nullptr;
    const std::size_t half = text.size() / 2;
    const auto bytes = std::as_bytes(std::span(text));
    EXPECT_TRUE((*made)->append(bytes.first(half)).ok());
    EXPECT_TRUE((*made)->append(bytes.subspan(half)).ok());
    return *std::move(made);
  }
  ObjectInfo put(const std::string& name, const std::string& text) {
    if (GetParam().put != nullptr) {
      GetParam().put(*store_, key(name), text);
      return store_->look(key(name))->info;
    }
    const auto info = std::move(*upload(name, text)).commit();
    EXPECT_TRUE(info.ok()) << info.status().message();
    return info.ok() ? *info : ObjectInfo{};
  }
  std::unique_ptr<const Object> open(const std::string& name) {
    auto object = store_->open(key(name), CachePolicy::buffered);
    EXPECT_TRUE(object.ok()) << object.status().message();
    return object.ok() ? *std::move(object) : nullptr;
  }
  /// What a read of an object gives that may have been replaced since it was opened: its bytes, or
  /// nothing.
  static std::optional<std::string> read_if_kept(const Object& object) {
    std::vector<std::byte> memory(object.info().size_bytes);
    const auto bytes = object.read(0, memory.size(), memory);
    if (bytes.ok()) return std::string(reinterpret_cast<const char*>(memory.data()), bytes->size());
    EXPECT_EQ(bytes.status().code(), Code::unavailable) << bytes.status().message();
    return std::nullopt;
  }
  static std::string read(const Object& object, std::uint64_t offset, std::size_t size) {
    std::vector<std::byte> memory(object.scratch_bytes(offset, size));
    const auto bytes = object.read(offset, size, memory);
    EXPECT_TRUE(bytes.ok()) << bytes.status().message();
    if (!bytes.ok()) return {};
    return {reinterpret_cast<const char*>(bytes->data()), bytes->size()};
  }
  std::string get(const std::string& name) {
    const auto object = open(name);
    return object == nullptr ? "" : read(*object, 0, object->info().size_bytes);
  }
  std::vector<std::pair<std::string, Kind>> list(const std::string& folder) {
    std::vector<std::pair<std::string, Kind>> names;
    const Status status = store_->list(folder, [&](const std::string& name, Kind kind) {
      names.emplace_back(name, kind);
      return true;
    });
    EXPECT_TRUE(status.ok()) << status.message();
    return names;
  }

  const TempDir dir_;
  const std::shared_ptr<ObjectStore> store_ = GetParam().make();
};

TEST_P(ObjectStoreSuite, what_was_written_is_read_whole_and_in_parts) {
  const std::string text = noise(300'001);
  const ObjectInfo info = put("a/b/c.bin", text);
  EXPECT_EQ(info.size_bytes, text.size());
  const auto object = open("a/b/c.bin");
  ASSERT_NE(object, nullptr);
  EXPECT_EQ(object->key(), key("a/b/c.bin"));
  EXPECT_EQ(object->info(), info);
  EXPECT_EQ(*object->info_now(), info);
  EXPECT_EQ(store_->look(key("a/b/c.bin"))->info, info);
  EXPECT_EQ(read(*object, 0, text.size()), text);
  EXPECT_EQ(read(*object, 1234, 5), text.substr(1234, 5));
  EXPECT_EQ(read(*object, text.size() - 3, 100), text.substr(text.size() - 3));
  EXPECT_EQ(read(*object, text.size(), 100), "");
  EXPECT_EQ(read(*object, text.size() + 4096, 1), "");
  EXPECT_EQ(read(*object, 7, 0), "");
}

TEST_P(ObjectStoreSuite, every_cache_policy_reads_the_same) {
  const std::string text = noise(50'000);
  put("a", text);
  for (const CachePolicy policy :
       {CachePolicy::automatic, CachePolicy::buffered, CachePolicy::drop_behind}) {
    const auto object = store_->open(key("a"), policy);
    ASSERT_TRUE(object.ok()) << object.status().message();
    struct alignas(4096) Aligned {
      std::array<std::byte, 64 << 10> bytes;
    };
    const auto memory = std::make_unique<Aligned>();
    ASSERT_LE((*object)->scratch_bytes(4999, 30'000), memory->bytes.size());
    const auto bytes = (*object)->read(4999, 30'000, memory->bytes);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    EXPECT_TRUE(std::ranges::equal(*bytes, std::as_bytes(std::span(text)).subspan(4999, 30'000)));
  }
}

TEST_P(ObjectStoreSuite, an_empty_object_is_an_object) {
  EXPECT_EQ(put("empty", "").size_bytes, 0U);
  EXPECT_EQ(get("empty"), "");
  EXPECT_EQ(store_->look(key("empty"))->kind, Kind::object);
}

TEST_P(ObjectStoreSuite, what_is_not_there_is_not_found_and_named) {
  put("a/b", "x");
  const Status opened = store_->open(key("a/none"), CachePolicy::automatic).status();
  const Status looked = store_->look(key("a/none")).status();
  const Status listed = store_->list(key("none"), [](auto&&, auto&&) { return true; });
  EXPECT_EQ(listed.code(), GetParam().has_list ? Code::not_found : Code::unsupported);
  EXPECT_EQ(opened.code(), Code::not_found);
  EXPECT_EQ(looked.code(), Code::not_found);
  for (const Status& status : {opened, looked, listed})
    EXPECT_NE(status.message().find(key("")), std::string_view::npos) << status.message();
}

TEST_P(ObjectStoreSuite, a_folder_is_no_object) {
  put("a/b", "x");
  EXPECT_EQ(store_->look(key("a"))->kind, Kind::folder);
  EXPECT_EQ(store_->open(key("a"), CachePolicy::automatic).status().code(), Code::invalid_argument);
}

TEST_P(ObjectStoreSuite, names_are_listed_in_bytewise_order_with_folders_and_nothing_below_them) {
  if (!GetParam().has_list) GTEST_SKIP() << "the store cannot list";
  for (const char* name :
       {"f/b", "f/B", "f/.hidden", "f/a-z", "f/a/deep", "f/a/er/still", "f/\xc3\xa9"})
    put(name, "x");
  put("fa", "another prefix");
  using Names = std::vector<std::pair<std::string, Kind>>;
  EXPECT_EQ(list(key("f")), (Names{{".hidden", Kind::object},
                                   {"B", Kind::object},
                                   {"a", Kind::folder},
                                   {"a-z", Kind::object},
                                   {"b", Kind::object},
                                   {"\xc3\xa9", Kind::object}}));
}

TEST_P(ObjectStoreSuite, a_list_stops_when_it_is_told_to) {
  if (!GetParam().has_list) GTEST_SKIP() << "the store cannot list";
  for (const char* name : {"f/1", "f/2", "f/3"}) put(name, "x");
  std::vector<std::string> names;
  EXPECT_TRUE(store_
                  ->list(key("f"),
                         [&](const std::string& name, Kind) {
                           names.push_back(name);
                           return names.size() < 2;
                         })
                  .ok());
  EXPECT_EQ(names, (std::vector<std::string>{"1", "2"}));
}

TEST_P(ObjectStoreSuite, many_ranges_of_several_objects_come_at_a_time) {
  constexpr std::uint32_t kDepth = 8;
  constexpr std::size_t kBytes = 100'000;
  const std::array texts = {noise(kBytes, 1), noise(kBytes, 2)};
  put("0", texts[0]);
  put("1", texts[1]);
  const std::array objects = {open("0"), open("1")};
  auto source = store_->make_source(kDepth);
  ASSERT_TRUE(source.ok()) << source.status().message();
  EXPECT_GE((*source)->depth_max(), 1U);
  std::mt19937_64 random(3);
  std::vector<std::vector<std::byte>> buffers(200);
  std::vector<Request> requests;
  std::vector<std::string> expected;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const std::uint64_t offset = random() % (kBytes + 2000);  // some past the end
    buffers[i].resize(1 + random() % 5000);
    expected.push_back(offset < kBytes ? texts[i % 2].substr(offset, buffers[i].size()) : "");
    requests.push_back(request_of(*objects[i % 2], offset, buffers[i]));
    requests.back().tag = i;
  }
  std::span<const Request> left = requests;
  std::array<Completion, 4> done;
  std::size_t done_count = 0;
  while (!left.empty() || (*source)->in_flight() > 0) {
    const auto accepted = (*source)->submit(left);
    ASSERT_TRUE(accepted.ok()) << accepted.status().message();
    EXPECT_LE((*source)->in_flight(), (*source)->depth_max());
    left = left.subspan(*accepted);
    const auto count = (*source)->reap(done, 1, std::chrono::seconds(60));
    ASSERT_TRUE(count.ok() && *count > 0);
    for (const Completion& each : std::span(done).first(*count)) {
      const std::string& text = expected[each.tag];
      ASSERT_EQ(each.result, static_cast<std::int64_t>(text.size()));
      EXPECT_TRUE(std::ranges::equal(std::span(buffers[each.tag]).first(text.size()),
                                     std::as_bytes(std::span(text))));
    }
    done_count += *count;
  }
  EXPECT_EQ(done_count, buffers.size());
}

TEST_P(ObjectStoreSuite, nothing_is_visible_before_the_commit_and_all_of_it_after) {
  if (GetParam().put != nullptr) GTEST_SKIP() << "the store is only read";
  put("a", "old");
  auto pending = upload("a", "new and longer");
  EXPECT_EQ(get("a"), "old");
  const auto reader = open("a");
  ASSERT_TRUE(std::move(*pending).commit().ok());
  EXPECT_EQ(get("a"), "new and longer");
  EXPECT_EQ(read_if_kept(*reader).value_or("old"), "old");
}

TEST_P(ObjectStoreSuite, readers_see_the_old_or_the_new_object_and_never_a_mix) {
  const std::array texts = {std::string(30'000, 'a'), std::string(20'000, 'b')};
  put("a", texts[0]);
  std::jthread writer([&](const std::stop_token& stop) {
    for (std::size_t i = 1; !stop.stop_requested(); ++i) put("a", texts[i % 2]);
  });
  for (int i = 0; i < 100; ++i) {
    const auto object = open("a");
    ASSERT_NE(object, nullptr);
    const std::string text = read_if_kept(*object).value_or(texts[0]);
    ASSERT_TRUE(text == texts[0] || text == texts[1]) << text.size();
  }
}

TEST_P(ObjectStoreSuite, of_racing_commits_if_absent_exactly_one_succeeds) {
  if (GetParam().put != nullptr) GTEST_SKIP() << "the store is only read";
  for (int round = 0; round < 10; ++round) {
    const std::string name = "round/" + std::to_string(round);
    std::vector<std::unique_ptr<Upload>> uploads;
    for (int i = 0; i < 4; ++i) uploads.push_back(upload(name, "writer " + std::to_string(i)));
    std::atomic<int> winner{-1};
    std::atomic<int> wins{0};
    std::atomic<int> losses{0};
    {
      std::vector<std::jthread> threads;
      for (int i = 0; i < 4; ++i)
        threads.emplace_back([&, i] {
          const auto info = std::move(*uploads[static_cast<std::size_t>(i)]).commit_if_absent();
          if (info.ok()) winner = i;
          wins += info.ok() ? 1 : 0;
          losses += info.status().code() == Code::already_exists ? 1 : 0;
        });
    }
    EXPECT_EQ(wins, 1);
    EXPECT_EQ(losses, 3);
    EXPECT_EQ(get(name), "writer " + std::to_string(winner));
  }
  const Status late = std::move(*upload("round/0", "late")).commit_if_absent().status();
  EXPECT_EQ(late.code(), Code::already_exists);
  EXPECT_NE(late.message().find(key("round/0")), std::string_view::npos) << late.message();
}

TEST_P(ObjectStoreSuite, an_upload_that_is_not_committed_leaves_nothing) {
  if (GetParam().put != nullptr) GTEST_SKIP() << "the store is only read";
  put("f/kept", "x");
  upload("f/new", "half of it").reset();
  upload("f/kept", "another").reset();
  static_cast<void>(std::move(*upload("f/kept", "lost")).commit_if_absent());
  EXPECT_EQ(list(key("f")).size(), 1U);
  EXPECT_EQ(get("f/kept"), "x");
}

TEST_P(ObjectStoreSuite, what_is_removed_is_gone_and_may_be_removed_again) {
  if (GetParam().put != nullptr) GTEST_SKIP() << "the store is only read";
  put("f/a", "x");
  put("f/b", "x");
  EXPECT_TRUE(store_->remove(key("f/a")).ok());
  EXPECT_TRUE(store_->remove(key("f/a")).ok());
  EXPECT_EQ(store_->look(key("f/a")).status().code(), Code::not_found);
  EXPECT_EQ(list(key("f")).size(), 1U);
}

TEST_P(ObjectStoreSuite, a_store_that_is_only_read_says_so) {
  if (GetParam().put == nullptr) GTEST_SKIP() << "the store is written to";
  EXPECT_EQ(store_->upload(key("a")).status().code(), Code::unsupported);
  EXPECT_EQ(store_->remove(key("a")).code(), Code::unsupported);
}

TEST_P(ObjectStoreSuite, the_version_differs_if_the_bytes_differ) {
  const ObjectInfo first = put("a", "same size 1");
  const ObjectInfo second = put("a", "same size 2");
  EXPECT_NE(first.version, second.version);
  EXPECT_EQ(open("a")->info(), second);
}

TEST_P(ObjectStoreSuite, an_object_is_read_by_several_threads_and_in_a_forked_child) {
  const std::string text = noise(200'000);
  put("a", text);
  const auto object = open("a");
  const auto check = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < 200; ++i) {
      const std::uint64_t offset = random() % text.size();
      if (read(*object, offset, 3000) != text.substr(offset, 3000)) return false;
    }
    return true;
  };
  std::atomic<int> good{0};
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < 4; ++i) threads.emplace_back([&, i] { good += check(i) ? 1 : 0; });
  }
  EXPECT_EQ(good, 4);
  EXPECT_EQ(in_child([&] { return check(9) ? 0 : 1; }).exit_code, 0);
}

}  // namespace stoker::testing
