// More files than descriptors: `ulimit -n` is a limit of the reader, not damage of the checkpoint.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <filesystem>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/step_builder.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

constexpr std::uint64_t kRanks = 100;
constexpr rlim_t kDescriptors = 64;

bool has_few_descriptors(rlim_t count) {
  const rlimit limit{count, count};
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

class DescriptorLimitTest : public ::testing::Test {
 protected:
  DescriptorLimitTest() {
    step_.ranks.resize(kRanks);
    for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
      BuiltTensor slice = random_tensor("w", TensorType::f32, {1, 300}, rank);
      slice.global_shape = {kRanks, 300};
      slice.offsets = {rank, 0};
      step_.ranks[rank] = {slice};
    }
    write_built_step(posix_file_ops(), dir_.path(), step_);
  }
  /// The whole tensor, as all ranks have saved it.
  std::vector<std::byte> whole() const {
    std::vector<std::byte> bytes;
    for (const std::vector<BuiltTensor>& rank : step_.ranks)
      bytes.insert(bytes.end(), rank[0].bytes.begin(), rank[0].bytes.end());
    return bytes;
  }
  static CheckpointReader::Options options(CachePolicy policy) {
    CheckpointReader::Options options = plain_reader();
    options.file.policy = policy;
    options.thread_count = 4;
    return options;
  }

  const TempDir dir_;
  BuiltStep step_{.step = 3, .ranks = {}};
};

TEST_F(DescriptorLimitTest, a_checkpoint_of_more_files_is_restored) {
  for (const CachePolicy policy : {CachePolicy::buffered, CachePolicy::automatic}) {
    const ChildEnd end = in_child([&] {
      if (!has_few_descriptors(kDescriptors)) return 1;
      const Result<CheckpointReader> reader =
          CheckpointReader::open(posix_file_ops(), dir_.file(step_name(3)), options(policy));
      if (!reader.ok()) return 2;
      std::vector<std::byte> bytes(reader->find("w")->size_bytes);
      if (!reader->read({.name = "w", .memory = bytes}).ok()) return 3;
      return bytes == whole() ? 0 : 4;
    });
    EXPECT_EQ(end.exit_code, 0) << end.signal;
  }
}

TEST_F(DescriptorLimitTest, a_checkpoint_of_more_files_is_verified) {
  for (const CachePolicy policy : {CachePolicy::buffered, CachePolicy::automatic}) {
    const ChildEnd end = in_child([&] {
      if (!has_few_descriptors(kDescriptors)) return 1;
      const auto report =
          verify_checkpoint(opened(dir_.path()), step_name(3), {.reader = options(policy)});
      if (!report.ok()) return 2;
      if (!report->damages.empty()) return 3;
      return report->checked_bytes > whole().size() ? 0 : 4;
    });
    EXPECT_EQ(end.exit_code, 0) << end.signal;
  }
}

TEST_F(DescriptorLimitTest, damage_is_found_with_few_descriptors_too) {
  const std::string path = dir_.file(step_name(3) + "/" + rank_file_name(77));
  std::string bytes = contents_of(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_built_file(posix_file_ops(), path, bytes);
  const ChildEnd end = in_child([&] {
    if (!has_few_descriptors(kDescriptors)) return 1;
    const auto report = verify_checkpoint(opened(dir_.path()), step_name(3),
                                          {.reader = options(CachePolicy::buffered)});
    if (!report.ok() || report->damages.size() != 1) return 2;
    return report->damages[0].file == rank_file_name(77) ? 0 : 3;
  });
  EXPECT_EQ(end.exit_code, 0) << end.signal;
}

TEST_F(DescriptorLimitTest, no_descriptor_at_all_is_an_error_and_no_damage) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "UndefinedBehaviorSanitizer itself needs descriptors, to look at memory";
#endif
  const ChildEnd end = in_child([&] {
    const CheckpointDirectory run = opened(dir_.path());
    if (!has_few_descriptors(0)) return 1;  // what is open stays so
    const auto report =
        verify_checkpoint(run, step_name(3), {.reader = options(CachePolicy::buffered)});
    if (report.ok()) return 2;
    const auto reader = CheckpointReader::open(run, step_name(3), options(CachePolicy::buffered));
    if (reader.ok()) return 3;
    const bool is_told =
        report.status().code() == Code::unavailable && reader.status().code() == Code::unavailable;
    return is_told ? 0 : 4;
  });
  EXPECT_EQ(end.exit_code, 0) << end.signal;
}

}  // namespace
}  // namespace stoker::testing
