#include "checkpoint/restore/reader.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "checkpoint/step_builder.h"
#include "support/faulty_engine.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

TEST(CheckpointReaderTest, reads_back_every_type_and_shape) {
  const TempDir dir;
  std::vector<BuiltTensor> tensors;
  for (unsigned i = 0; i <= static_cast<unsigned>(TensorType::u64); ++i) {
    const auto type = static_cast<TensorType>(i);
    const std::string name(tensor_type_name(type));
    tensors.push_back(random_tensor(name + ".matrix", type, {3, 8}, 10 + i));
    tensors.push_back(random_tensor(name + ".empty", type, {0, 4}, 1));
    if (tensor_type_bits(type) % 8 == 0)
      tensors.push_back(random_tensor(name + ".scalar", type, {}, 100 + i));
  }
  write_built_step(posix_file_ops(), dir.path(), {.step = 7, .ranks = {tensors}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(7)));
  EXPECT_EQ(reader.tensors().size(), tensors.size());
  for (const BuiltTensor& tensor : tensors) {
    ASSERT_NE(reader.find(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(reader.find(tensor.name)->shape, tensor.shape);
    EXPECT_EQ(read_whole(reader, tensor.name), tensor.bytes) << tensor.name;
  }
}

/// Several chunks: borders inside tensors, tensors inside chunks.
std::vector<BuiltTensor> large_tensors() {
  return {random_tensor("a", TensorType::f32, {1600, 1024}, 1),
          random_tensor("b", TensorType::f32, {3}, 2),
          random_tensor("c", TensorType::f32, {1024, 2049}, 3),
          random_tensor("d", TensorType::bf16, {100, 7}, 4)};
}

TEST(CheckpointReaderTest, restores_large_tensors_on_every_path) {
  const TempDir dir;
  const std::vector<BuiltTensor> tensors = large_tensors();
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {tensors}});
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::buffered,
                                   CachePolicy::direct, CachePolicy::drop_behind}) {
    for (const std::size_t misaligned : {0U, 16U}) {
      CheckpointReader::Options options{.file = {.policy = policy}, .thread_count = 3, .depth = 2};
      const Result<CheckpointReader> reader =
          CheckpointReader::open(posix_file_ops(), dir.file(step_name(1)), options);
      if (policy == CachePolicy::direct && reader.status().code() == Code::unsupported) continue;
      ASSERT_TRUE(reader.ok()) << reader.status().message();
      std::vector<ReadTarget> targets;
      std::vector<std::byte*> memories;
      for (const BuiltTensor& tensor : tensors) {
        const std::size_t size = (tensor.bytes.size() + misaligned + 4095) / 4096 * 4096;
        memories.push_back(static_cast<std::byte*>(::aligned_alloc(4096, size)));
        targets.push_back({.name = tensor.name,
                           .memory = std::span(memories.back(), size),
                           .first_bytes = misaligned});
      }
      std::atomic<std::uint64_t> read_bytes = 0;
      must(reader->read_all(targets, {.read_bytes = &read_bytes}));
      EXPECT_EQ(read_bytes, reader->manifest().files[0].size_bytes) << "each chunk is read once";
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(
            std::memcmp(memories[i] + misaligned, tensors[i].bytes.data(), tensors[i].bytes.size()),
            0)
            << cache_policy_name(policy) << " " << tensors[i].name;
        ::free(memories[i]);
      }
    }
  }
}

TEST(CheckpointReaderTest, a_chunk_of_which_a_piece_is_read_is_read_whole_and_once) {
  const TempDir dir;
  const std::vector<BuiltTensor> tensors = large_tensors();
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {tensors}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  for (const std::uint64_t row : {300U, 301U}) {
    std::vector<float> values(2);
    const ReadTarget target{.name = "c",
                            .offsets = {row, 2046},
                            .shape = {1, 2},
                            .memory = std::as_writable_bytes(std::span(values))};
    std::atomic<std::uint64_t> read_bytes = 0;
    must(reader.read_all(std::span(&target, 1), {.read_bytes = &read_bytes}));
    EXPECT_EQ(read_bytes, row == 300 ? kCheckpointChunkBytes : 0U) << "the second is kept";
    const std::byte* expected = tensors[2].bytes.data() + 4 * (row * 2049 + 2046);
    EXPECT_EQ(std::memcmp(values.data(), expected, 8), 0);
  }
}

void spoil_byte(const std::string& path, std::uint64_t offset_bytes) {
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(offset_bytes));
  file.put('!');
}

TEST(CheckpointReaderTest, bytes_that_change_after_they_were_checked_are_found_by_the_next_read) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {large_tensors()}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<std::byte> memory(reader.find("c")->size_bytes);
  must(reader.read({.name = "c", .memory = memory}));
  spoil_byte(dir.file(step_name(1) + "/rank-00000.safetensors"), 2 * kCheckpointChunkBytes + 5);
  EXPECT_EQ(reader.read({.name = "c", .memory = memory}).code(), Code::corrupt);
  std::vector<std::byte> item(4);  // in the same chunk, far from that byte
  const Status piece =
      reader.read({.name = "c", .offsets = {300, 0}, .shape = {1, 1}, .memory = item});
  EXPECT_EQ(piece.code(), Code::corrupt) << "a piece is as good as its whole chunk";
}

TEST(CheckpointReaderTest, stays_readable_when_the_step_is_removed) {
  const TempDir dir;
  const BuiltStep step = small_step(3, 1);
  write_built_step(posix_file_ops(), dir.path(), step);
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(3)));
  std::filesystem::remove_all(dir.file(step_name(3)));
  EXPECT_EQ(read_whole(reader, "model.weight"), step.ranks[0][0].bytes);
}

TEST(CheckpointReaderTest, follows_latest_once) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  write_built_step(posix_file_ops(), dir.path(), small_step(4, 2));
  must(posix_file_ops().symlink(step_name(3), dir.file("latest")));
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file("latest/"));
  std::filesystem::remove(dir.file("latest"));
  must(posix_file_ops().symlink(step_name(4), dir.file("latest")));
  EXPECT_EQ(reader.manifest().step, 3U);
  EXPECT_EQ(read_whole(reader, "model.weight"), small_step(3, 1).ranks[0][0].bytes);
}

TEST(CheckpointReaderTest, a_link_where_a_step_or_a_file_should_be_leads_nowhere) {
  const TempDir dir;
  const TempDir elsewhere;
  write_built_step(posix_file_ops(), elsewhere.path(), small_step(3, 1));
  std::filesystem::create_symlink(elsewhere.file(step_name(3)), dir.file(step_name(3)));
  const auto open = [&] {
    return CheckpointReader::open(opened(dir.path()), step_name(3), plain_reader()).status();
  };
  EXPECT_EQ(open().code(), Code::corrupt) << open().message();
  EXPECT_EQ(CheckpointReader::open(posix_file_ops(), dir.file(step_name(3)), plain_reader())
                .status()
                .code(),
            Code::corrupt);
  std::filesystem::remove(dir.file(step_name(3)));
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  for (const char* const name : {"/rank-00000.safetensors", "/manifest.json"}) {
    const std::string path = dir.file(step_name(3)) + name;
    std::filesystem::rename(path, path + ".away");
    std::filesystem::create_symlink(elsewhere.file(step_name(3)) + name, path);
    EXPECT_EQ(open().code(), Code::corrupt) << name << ": " << open().message();
    std::filesystem::rename(path + ".away", path);
  }
  EXPECT_TRUE(open().ok()) << open().message();
}

/// Another checkpoint takes the place of the one that is being opened, after its manifest was read.
class ReplacingFileOps final : public FaultyFileOps {
 public:
  ReplacingFileOps(FileOps& target, std::string directory)
      : FaultyFileOps(target, kNever, 0), directory_(std::move(directory)) {}
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    if (path.text().ends_with(".safetensors") && !std::exchange(is_done_, true)) {
      std::filesystem::rename(directory_ + "/" + step_name(3),
                              directory_ + "/" + superseded_name(3, 1));
      write_built_step(posix_file_ops(), directory_, small_step(3, 2, 77));
    }
    return FaultyFileOps::open(path, flags);
  }

 private:
  const std::string directory_;
  bool is_done_ = false;
};

TEST(CheckpointReaderTest, a_manifest_and_the_files_of_another_are_never_mixed) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  ReplacingFileOps ops(posix_file_ops(), dir.path());
  const CheckpointReader reader = open_step(ops, dir.file(step_name(3)));
  EXPECT_EQ(reader.manifest().generation, 1U) << "that which had the name when it was opened";
  EXPECT_EQ(read_whole(reader, "model.weight"), small_step(3, 1).ranks[0][0].bytes);
}

TEST(CheckpointReaderTest, a_directory_with_the_manifest_of_another_step_is_damaged) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  std::filesystem::rename(dir.file(step_name(3)), dir.file(step_name(4)));
  const auto open_at = [&](const std::string& name) {
    return CheckpointReader::open(posix_file_ops(), dir.file(name), {}).status();
  };
  EXPECT_EQ(open_at(step_name(4)).code(), Code::corrupt);
  EXPECT_NE(open_at(step_name(4)).message().find("its manifest is that of step 3"),
            std::string::npos);
  std::filesystem::rename(dir.file(step_name(4)), dir.file("a-copy"));
  EXPECT_TRUE(open_at("a-copy").ok());
}

TEST(CheckpointReaderTest, damage_is_named_with_file_offset_and_tensor) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {large_tensors()}});
  spoil_byte(dir.file(step_name(1) + "/rank-00000.safetensors"), 2 * kCheckpointChunkBytes + 5);
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<std::byte> memory(reader.find("c")->size_bytes);
  const Status status = reader.read({.name = "c", .memory = memory});
  EXPECT_EQ(status.code(), Code::corrupt);
  for (const char* word : {"rank-00000.safetensors", "offset 8388608", "tensor", "c"})
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  std::vector<std::byte> other(reader.find("a")->size_bytes);
  must(reader.read({.name = "a", .memory = other}));  // in chunks that are whole
}

TEST(CheckpointReaderTest, the_digest_of_a_tensor_is_that_of_its_bytes_whoever_saved_it) {
  for (const bool has_digests : {true, false}) {
    const TempDir dir;
    BuiltStep step = {.step = 1, .ranks = {large_tensors()}, .has_digests = has_digests};
    BuiltTensor top = random_tensor("halves", TensorType::i16, {2, 3}, 1);
    BuiltTensor bottom = random_tensor("halves", TensorType::i16, {2, 3}, 2);
    top.global_shape = bottom.global_shape = {4, 3};
    top.offsets = {0, 0};
    bottom.offsets = {2, 0};
    step.ranks[0].push_back(top);
    step.ranks.push_back({bottom});
    write_built_step(posix_file_ops(), dir.path(), step);
    const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
    EXPECT_EQ(reader.find("a")->digest.has_value(), has_digests);
    EXPECT_FALSE(reader.find("halves")->digest.has_value());
    for (const TensorInfo& tensor : reader.tensors()) {
      const Result<Digest128> digest = reader.digest_of(tensor);
      ASSERT_TRUE(digest.ok()) << digest.status().message();
      EXPECT_EQ(*digest, xxh3_128(read_whole(reader, tensor.name))) << tensor.name;
    }
  }
}

TEST(CheckpointReaderTest, any_single_failure_of_a_call_is_reported) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  int fault_count = 0;
  for (int fail_at = 0;; ++fail_at) {
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Result<CheckpointReader> reader =
        CheckpointReader::open(ops, dir.file(step_name(3)), plain_reader());
    if (!ops.fired()) break;
    ++fault_count;
    EXPECT_EQ(reader.status().code(), Code::io_error) << ops.failed_op();
  }
  EXPECT_EQ(fault_count, 4);  // to open the directory, the step, its manifest and file
  for (int fail_at = 0; fail_at < 1; ++fail_at) {
    CheckpointReader::Options options = plain_reader();
    options.engine = [&]() -> Result<std::unique_ptr<Engine>> {
      STOKER_ASSIGN(std::unique_ptr<Engine> engine, make_sync_engine({}));
      return std::unique_ptr<Engine>(new FaultyEngine(std::move(engine), fail_at, -EIO));
    };
    const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(3)), options);
    std::vector<std::byte> memory(60);
    const Status status = reader.read({.name = "model.weight", .memory = memory});
    EXPECT_EQ(status.os_error(), EIO);
    EXPECT_NE(status.message().find("model.weight"), std::string::npos) << status.message();
  }
}

TEST(CheckpointReaderTest, a_stop_ends_a_read) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(3)));
  std::stop_source source;
  source.request_stop();
  std::vector<std::byte> memory(60);
  const ReadTarget target{.name = "model.weight", .memory = memory};
  EXPECT_EQ(reader.read_all(std::span(&target, 1), {.stop = source.get_token()}).code(),
            Code::cancelled);
}

}  // namespace
}  // namespace stoker::testing
