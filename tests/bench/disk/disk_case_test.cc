#include "bench/disk/disk_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace stoker {
namespace {

std::size_t count_of(const std::vector<DiskCase>& cases, CaseKind kind, std::string_view policy) {
  return static_cast<std::size_t>(std::count_if(
      cases.begin(), cases.end(),
      [&](const DiskCase& row) { return row.kind == kind && row.policy.name() == policy; }));
}

TEST(DiskCaseTest, default_compares_buffered_direct_and_mmap) {
  const std::vector<DiskCase> cases = make_disk_cases({});
  EXPECT_EQ(count_of(cases, CaseKind::seq_write, "direct"), 1u);
  EXPECT_EQ(count_of(cases, CaseKind::seq_write, "buffered"), 1u);
  EXPECT_EQ(count_of(cases, CaseKind::rand_read, "direct"), 9u) << "3 blocks, 3 depths";
  EXPECT_EQ(count_of(cases, CaseKind::rand_read, "mmap"), 6u) << "3 blocks, cold and warm";
  EXPECT_EQ(count_of(cases, CaseKind::fsync, "buffered"), 3u);
  EXPECT_EQ(count_of(cases, CaseKind::small_read, "buffered"), 2u) << "cold and warm";
}

TEST(DiskCaseTest, every_named_policy_leaves_only_its_own_cases) {
  for (const std::string_view name : {"automatic", "buffered", "direct", "drop_behind", "mmap"}) {
    SCOPED_TRACE(name);
    const Result<AccessPolicy> policy = parse_access_policy(name);
    ASSERT_TRUE(policy.ok());
    const std::vector<DiskCase> cases = make_disk_cases({.policy = *policy});
    EXPECT_FALSE(cases.empty());
    for (const DiskCase& row : cases) {
      EXPECT_EQ(row.policy.name(), name);
      EXPECT_FALSE(name == "mmap" && row.kind == CaseKind::seq_write) << "mappings are read";
      EXPECT_FALSE(name == "mmap" && row.depth != 1) << "a mapping has no queue";
      EXPECT_FALSE(name == "direct" && row.cache == CacheState::warm) << "no cache, no warmth";
    }
  }
}

TEST(DiskCaseTest, no_case_is_listed_twice) {
  for (const std::string_view name : {"automatic", "buffered", "direct", "drop_behind", "mmap"}) {
    SCOPED_TRACE(name);
    std::set<std::tuple<CaseKind, std::uint32_t, std::uint32_t, CacheState>> seen;
    for (const DiskCase& row : make_disk_cases({.policy = *parse_access_policy(name)}))
      EXPECT_TRUE(seen.emplace(row.kind, row.block_bytes, row.depth, row.cache).second);
  }
}

TEST(DiskCaseTest, one_case_can_be_picked_with_its_shape) {
  const std::vector<DiskCase> cases = make_disk_cases({.policy = *parse_access_policy("direct"),
                                                       .only = {CaseKind::rand_read},
                                                       .block_bytes = 8192,
                                                       .depth = 7});
  ASSERT_EQ(cases.size(), 1u);
  EXPECT_EQ(cases[0].block_bytes, 8192u);
  EXPECT_EQ(cases[0].depth, 7u);
}

TEST(DiskCaseTest, a_depth_is_taken_by_every_case_that_has_a_queue) {
  for (const std::string_view name : {"automatic", "buffered", "direct", "drop_behind", "mmap"}) {
    for (const DiskCase& row :
         make_disk_cases({.policy = *parse_access_policy(name), .depth = 32})) {
      const bool has_queue =
          name != "mmap" && (row.kind == CaseKind::seq_write || row.kind == CaseKind::seq_read ||
                             row.kind == CaseKind::rand_read);
      EXPECT_EQ(row.depth, has_queue ? 32U : 1U) << name << " " << case_kind_name(row.kind);
    }
  }
}

TEST(DiskCaseTest, blocks_larger_than_the_file_are_left_out) {
  for (const DiskCase& row : make_disk_cases({.size_bytes = 128 << 10}))
    EXPECT_LE(row.block_bytes, 128u << 10);
}

TEST(DiskCaseTest, nonsense_is_refused_with_the_flag_to_change) {
  const auto refusal = [](const DiskBenchOptions& options) {
    const Status status = check_options(options);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    return std::string(status.message());
  };
  EXPECT_TRUE(check_options({}).ok());
  EXPECT_NE(refusal({.size_bytes = 1}).find("--size"), std::string::npos);
  EXPECT_NE(refusal({.time_per_case = nanoseconds(0)}).find("--time"), std::string::npos);
  EXPECT_NE(refusal({.depth = 0}).find("--depth"), std::string::npos);
  EXPECT_NE(refusal({.depth = 5000}).find("--depth"), std::string::npos);
  EXPECT_NE(refusal({.block_bytes = 4097}).find("--block"), std::string::npos);
  EXPECT_NE(refusal({.block_bytes = 0}).find("--block"), std::string::npos);
  EXPECT_NE(refusal({.block_bytes = 64 << 20, .depth = 1024}).find("buffers"), std::string::npos);
  EXPECT_NE(refusal({.size_bytes = 8 << 20, .block_bytes = 16 << 20}).find("larger than --size"),
            std::string::npos);
}

TEST(DiskCaseTest, names_survive_the_round_trip_and_strangers_are_listed) {
  for (const DiskCase& row : make_disk_cases({})) {
    const Result<CaseKind> kind = parse_case_kind(case_kind_name(row.kind));
    ASSERT_TRUE(kind.ok());
    EXPECT_EQ(*kind, row.kind);
  }
  EXPECT_NE(parse_case_kind("seq").status().message().find("rand_read"), std::string_view::npos);
  EXPECT_NE(parse_access_policy("fast").status().message().find("mmap"), std::string_view::npos);
}

}  // namespace
}  // namespace stoker
