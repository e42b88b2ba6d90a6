#include "checkpoint/inspect/verify.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdio>
#include <filesystem>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/history.h"
#include "checkpoint/step_builder.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

/// Two ranks of a small checkpoint, and ways to spoil them.
class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() {
    write_built_step(posix_file_ops(), dir_.path(),
                     {.step = 5,
                      .generation = 1,
                      .ranks = {{random_tensor("w", TensorType::f32, {2, 3}, 1)},
                                {random_tensor("v", TensorType::f32, {2, 3}, 2)}}});
  }

  std::string path(const std::string& file) const { return dir_.file(step_name(5) + "/" + file); }

  std::vector<CheckpointDamage> damages() const {
    const Result<CheckpointVerifyReport> report =
        verify_checkpoint(opened(dir_.path()), step_name(5), {.reader = plain_reader()});
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? report->damages : std::vector<CheckpointDamage>();
  }
  CheckpointDamage only_damage() const {
    const std::vector<CheckpointDamage> found = damages();
    EXPECT_EQ(found.size(), 1U);
    return found.empty() ? CheckpointDamage() : found[0];
  }
  /// Whether restoring notices as well.
  Status restored() const {
    const Result<CheckpointReader> reader =
        CheckpointReader::open(posix_file_ops(), dir_.file(step_name(5)), plain_reader());
    if (!reader.ok()) return reader.status();
    std::vector<std::byte> w(24);
    std::vector<std::byte> v(24);
    const ReadTarget targets[] = {{.name = "w", .memory = w}, {.name = "v", .memory = v}};
    return reader->read_all(targets);
  }

  const TempDir dir_;
};

TEST_F(VerifyTest, a_fifo_or_a_directory_in_place_of_the_manifest_is_damage_and_hangs_nobody) {
  const std::string manifest = path("manifest.json");
  for (const bool is_fifo : {true, false}) {
    fs::remove(manifest);
    ASSERT_EQ(is_fifo ? ::mkfifo(manifest.c_str(), 0600) : ::mkdir(manifest.c_str(), 0700), 0);
    EXPECT_EQ(only_damage().kind, DamageKind::bad_manifest);
    EXPECT_EQ(restored().code(), Code::corrupt) << restored().message();
    const Result<Catalog> catalog = list_checkpoints(opened(dir_.path()));
    ASSERT_TRUE(catalog.ok()) << catalog.status().message();
    EXPECT_EQ(catalog->steps.front().problem.code(), Code::corrupt);
    History history(opened(dir_.path()));
    EXPECT_TRUE(history.refresh().ok());
  }
}

TEST_F(VerifyTest, finds_nothing_in_a_whole_checkpoint) {
  std::uint64_t last = 0;
  const Result<CheckpointVerifyReport> report = verify_checkpoints(
      opened(dir_.path()),
      {.reader = plain_reader(),
       .progress = [&](const std::string&, std::uint64_t done, std::uint64_t total) {
         last = done;
         EXPECT_LE(done, total);
       }});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->damages.empty());
  EXPECT_EQ(report->step_count, 1U);
  EXPECT_EQ(report->checked_bytes, last);
  EXPECT_GT(last, 8192U);
}

// Every byte takes minutes under a sanitizer.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t kBytesPerFlip = 17;
#else
constexpr std::size_t kBytesPerFlip = 1;
#endif

TEST_F(VerifyTest, finds_every_single_bit_that_flips) {
  std::size_t flip_count = 0;
  for (const std::string name : {"rank-00001.safetensors", "manifest.json"}) {
    const std::string bytes = contents_of(path(name));
    Result<UniqueFd> fd = posix_file_ops().open(path(name), O_RDWR);
    ASSERT_TRUE(fd.ok());
    for (std::size_t at = 0; at < bytes.size(); at += kBytesPerFlip) {
      for (int bit = 0; bit < 8; ++bit, ++flip_count) {
        const char flipped = static_cast<char>(bytes[at] ^ (1 << bit));
        ASSERT_EQ(::pwrite(fd->get(), &flipped, 1, static_cast<off_t>(at)), 1);
        const std::vector<CheckpointDamage> found = damages();
        ASSERT_FALSE(found.empty()) << name << " byte " << at << " bit " << bit;
        ASSERT_EQ(found[0].file, name) << "byte " << at << " bit " << bit;
        ASSERT_EQ(found[0].offset_bytes, 0U);
        // Restoring notices too; one bit of each byte, because it takes as long again.
        ASSERT_TRUE(bit != 3 || restored().code() == Code::corrupt) << name << " byte " << at;
      }
      ASSERT_EQ(::pwrite(fd->get(), &bytes[at], 1, static_cast<off_t>(at)), 1);
    }
  }
  EXPECT_TRUE(damages().empty());
  RecordProperty("flips", static_cast<int>(flip_count));
  std::printf("%zu bits flipped, each found and named\n", flip_count);
  EXPECT_GT(flip_count, 35'000U / kBytesPerFlip);
}

TEST_F(VerifyTest, finds_every_truncation) {
  std::size_t truncation_count = 0;
  for (const std::string name : {"rank-00001.safetensors", "manifest.json"}) {
    const std::string bytes = contents_of(path(name));
    for (std::size_t size = bytes.size(); size-- > 0; ++truncation_count) {
      fs::resize_file(path(name), size);
      const CheckpointDamage damage = only_damage();
      ASSERT_EQ(damage.file, name);
      if (name != "manifest.json") {
        ASSERT_EQ(damage.kind, DamageKind::wrong_size);
        ASSERT_EQ(damage.offset_bytes, size);
        ASSERT_EQ(damage.tensors, std::vector<std::string>{"v"});
      }
    }
    std::ofstream(path(name), std::ios::binary) << bytes;
  }
  EXPECT_TRUE(damages().empty());
  RecordProperty("truncations", static_cast<int>(truncation_count));
  std::printf("%zu truncations, each found and named\n", truncation_count);
}

TEST_F(VerifyTest, finds_a_file_that_has_grown) {
  std::ofstream(path("rank-00000.safetensors"), std::ios::binary | std::ios::app) << "x";
  const CheckpointDamage damage = only_damage();
  EXPECT_EQ(damage.kind, DamageKind::wrong_size);
  EXPECT_EQ(damage.offset_bytes, 4096U + 24U);
}

TEST_F(VerifyTest, finds_a_hole_of_zeros_in_the_right_chunk) {
  write_built_step(posix_file_ops(), dir_.path(),
                   {.step = 6,
                    .generation = 2,
                    .ranks = {{random_tensor("a", TensorType::f32, {1024, 1600}, 1),
                               random_tensor("b", TensorType::f32, {1024, 2049}, 3)}}});
  const std::string file = dir_.file(step_name(6) + "/rank-00000.safetensors");
  const std::uint64_t size = fs::file_size(file);
  const std::string bytes = contents_of(file);
  {
    std::ofstream out(file, std::ios::binary);
    out.write(bytes.data(), 2 * kCheckpointChunkBytes);
    out.seekp(3 * kCheckpointChunkBytes);
    out.write(bytes.data() + 3 * kCheckpointChunkBytes,
              static_cast<std::streamsize>(size - 3 * kCheckpointChunkBytes));
  }
  const Result<CheckpointVerifyReport> report =
      verify_checkpoints(opened(dir_.path()), CheckpointVerifyOptions());
  ASSERT_TRUE(report.ok());
  ASSERT_EQ(report->damages.size(), 1U);
  EXPECT_EQ(report->damages[0].kind, DamageKind::bad_bytes);
  EXPECT_EQ(report->damages[0].step, step_name(6));
  EXPECT_EQ(report->damages[0].offset_bytes, 2 * kCheckpointChunkBytes);
  EXPECT_EQ(report->damages[0].tensors, std::vector<std::string>{"b"});
  EXPECT_NE(report->damages[0].reason.find("zeros"), std::string::npos);
}

TEST_F(VerifyTest, finds_swapped_files) {
  fs::rename(path("rank-00000.safetensors"), path("x"));
  fs::rename(path("rank-00001.safetensors"), path("rank-00000.safetensors"));
  fs::rename(path("x"), path("rank-00001.safetensors"));
  const std::vector<CheckpointDamage> found = damages();
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].file, "rank-00000.safetensors");
  EXPECT_EQ(found[0].tensors, std::vector<std::string>{"w"});
  EXPECT_EQ(found[1].file, "rank-00001.safetensors");
  EXPECT_EQ(restored().code(), Code::corrupt);
}

TEST_F(VerifyTest, finds_a_missing_rank_and_a_foreign_file) {
  fs::rename(path("rank-00001.safetensors"), path("rank-00002.safetensors"));
  fs::create_directory(path("subdirectory"));
  const std::vector<CheckpointDamage> found = damages();
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0].kind, DamageKind::missing_file);
  EXPECT_EQ(found[0].file, "rank-00001.safetensors");
  EXPECT_EQ(found[0].tensors, std::vector<std::string>{"v"});
  EXPECT_EQ(found[1].kind, DamageKind::foreign_file);
  EXPECT_EQ(found[1].file, "rank-00002.safetensors");
  EXPECT_EQ(found[2].file, "subdirectory");
  const Status status = restored();
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find("rank-00001.safetensors"), std::string::npos);
}

TEST_F(VerifyTest, finds_a_link_in_a_file_s_place) {
  fs::rename(path("rank-00001.safetensors"), dir_.file("elsewhere"));
  fs::create_symlink("../elsewhere", path("rank-00001.safetensors"));
  EXPECT_EQ(only_damage().kind, DamageKind::missing_file);
  EXPECT_EQ(restored().code(), Code::corrupt);
}

TEST_F(VerifyTest, finds_a_manifest_that_is_missing_or_of_another_step) {
  fs::rename(path("manifest.json"), dir_.file("kept"));
  EXPECT_EQ(only_damage().kind, DamageKind::bad_manifest);
  fs::rename(dir_.file("kept"), path("manifest.json"));
  fs::rename(dir_.file(step_name(5)), dir_.file(step_name(8)));
  const Result<CheckpointVerifyReport> report =
      verify_checkpoint(opened(dir_.path()), step_name(8), {});
  ASSERT_EQ(report->damages.size(), 1U);
  EXPECT_EQ(report->damages[0].kind, DamageKind::bad_manifest);
  EXPECT_EQ(verify_checkpoint(opened(dir_.path()), step_name(5), {}).status().code(),
            Code::not_found);
}

TEST_F(VerifyTest, finds_a_header_that_contradicts_a_valid_manifest) {
  Result<CheckpointManifest> manifest =
      parse_checkpoint_manifest(contents_of(path("manifest.json")), "manifest");
  manifest->tensors[0].name = "renamed";
  std::ofstream(path("manifest.json")) << format_checkpoint_manifest(*manifest);
  const CheckpointDamage damage = only_damage();
  EXPECT_EQ(damage.kind, DamageKind::bad_header);
  EXPECT_EQ(damage.file, "rank-00000.safetensors");
}

TEST_F(VerifyTest, finds_a_digest_that_is_not_that_of_the_tensor) {
  Result<CheckpointManifest> manifest =
      parse_checkpoint_manifest(contents_of(path("manifest.json")), "manifest");
  manifest->tensors[1].digest = manifest->tensors[0].digest;
  std::ofstream(path("manifest.json")) << format_checkpoint_manifest(*manifest);
  const CheckpointDamage damage = only_damage();
  EXPECT_EQ(damage.kind, DamageKind::bad_digest);
  EXPECT_EQ(damage.file, "rank-00001.safetensors");
  EXPECT_EQ(damage.tensors, std::vector<std::string>{"v"});
  EXPECT_EQ(damage.size_bytes, 24U);
}

TEST_F(VerifyTest, finds_elements_that_nobody_has_saved) {
  Result<CheckpointManifest> manifest =
      parse_checkpoint_manifest(contents_of(path("manifest.json")), "manifest");
  manifest->tensors[0].global_shape[0] = 4;
  std::ofstream(path("manifest.json")) << format_checkpoint_manifest(*manifest);
  const CheckpointDamage damage = only_damage();
  EXPECT_EQ(damage.kind, DamageKind::missing_slice);
  EXPECT_EQ(damage.tensors, std::vector<std::string>{"w"});
}

TEST_F(VerifyTest, finds_a_latest_that_leads_nowhere) {
  fs::create_symlink(step_name(9), dir_.file("latest"));
  const Result<CheckpointVerifyReport> report =
      verify_checkpoints(opened(dir_.path()), {.reader = plain_reader()});
  ASSERT_EQ(report->damages.size(), 1U);
  EXPECT_EQ(report->damages[0].kind, DamageKind::bad_latest);
}

TEST_F(VerifyTest, finds_a_latest_that_no_save_can_move) {
  fs::create_directory(dir_.file("latest"));
  const Result<CheckpointVerifyReport> report =
      verify_checkpoints(opened(dir_.path()), {.reader = plain_reader()});
  ASSERT_EQ(report->damages.size(), 1U);
  EXPECT_EQ(report->damages[0].kind, DamageKind::bad_latest);
  EXPECT_NE(report->damages[0].reason.find("not a symbolic link"), std::string::npos);
}

TEST_F(VerifyTest, any_single_failure_of_a_call_is_an_error_or_a_damage) {
  for (int fail_at = 0;; ++fail_at) {
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Result<CheckpointVerifyReport> report =
        verify_checkpoint(opened(dir_.path()).with(ops), step_name(5), {.reader = plain_reader()});
    if (!ops.fired()) break;
    EXPECT_TRUE(!report.ok() || !report->damages.empty()) << ops.failed_op() << fail_at;
  }
}

}  // namespace
}  // namespace stoker::testing
