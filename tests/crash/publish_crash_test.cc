// Power cuts at every operation of what publishes files and directories, and the proof that the
// oracle would have noticed: the same protocols with a step left out.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>

#include "crash/protocol_crash.h"
#include "io/files/file.h"
#include "io/files/publish.h"
#include "support/model_disk_text.h"

namespace stoker::testing {
namespace {

class PublishCrashTest : public ProtocolCrashTest {};

/// Publishes versions 1 to 3 of one file. Noted: "began N", "published N".
void publish_three(CutRun& run, FileOps& ops) {
  for (int version = 1; version <= 3; ++version) {
    run.note("began " + std::to_string(version));
    const std::string text = text_of_version(version);
    ASSERT_TRUE(publish_file(ops, "/run/manifest", bytes_of(text)).ok());
    run.note("published " + std::to_string(version));
  }
}

/// The last version published, or the one that was under way; the next publisher has no trouble.
std::string old_or_new(ModelDisk& disk, const CutPoint& point) {
  const auto published = static_cast<int>(point.count("published"));
  const auto began = static_cast<int>(point.count("began"));
  const std::optional<std::string> found = text_of(disk, "/run/manifest");
  bool is_legal = !found && published == 0;
  for (int version = std::max(published, 1); version <= began; ++version)
    is_legal = is_legal || found == text_of_version(version);
  if (!is_legal) return found ? "neither the old file nor the new one" : "the file is gone";
  const Status next = publish_file(disk, "/run/manifest", bytes_of("next"));
  if (!next.ok() || text_of(disk, "/run/manifest") != "next") return "the next publisher failed";
  return "";
}

TEST_F(PublishCrashTest, a_published_file_is_the_old_one_or_the_new_one_whole) {
  expect_sound(sweep(publish_three, old_or_new, kNone), 100);
}

TEST_F(PublishCrashTest, a_file_published_wrongly_is_found_out) {
  EXPECT_GT(sweep(publish_three, old_or_new, kNoFileSync).violation_count, 0U);
  EXPECT_GT(sweep(publish_three, old_or_new, kNoDirectorySync).violation_count, 0U);
  EXPECT_GT(sweep(publish_three, old_or_new, kRenameFirst).violation_count, 0U);
}

/// Stages two files and a link, one of them deeper, and publishes the directory to another one.
void publish_tree(CutRun& run, FileOps& ops) {
  for (const char* directory : {"/run/owner", "/run/owner/staged", "/run/owner/staged/deep"})
    ASSERT_TRUE(ops.mkdir(directory).ok());
  ASSERT_TRUE(write_text(ops, "/run/owner/staged/a", text_of_version(1)).ok());
  ASSERT_TRUE(write_text(ops, "/run/owner/staged/deep/b", text_of_version(2)).ok());
  ASSERT_TRUE(ops.symlink("a", "/run/owner/staged/link").ok());
  ASSERT_TRUE(publish_directory(ops, "/run/owner/staged", "/run/step").ok());
  run.note("published");
}

std::string whole_or_absent(ModelDisk& disk, const CutPoint& point) {
  if (!disk.list("/run/step").ok()) return point.has("published") ? "the directory is gone" : "";
  const bool is_whole = text_of(disk, "/run/step/a") == text_of_version(1) &&
                        text_of(disk, "/run/step/deep/b") == text_of_version(2) &&
                        text_of(disk, "/run/step/link") == text_of_version(1);
  return is_whole ? "" : "the directory is not whole";
}

TEST_F(PublishCrashTest, a_published_directory_is_whole_or_absent) {
  expect_sound(sweep(publish_tree, whole_or_absent, kNone), 500);
}

TEST_F(PublishCrashTest, a_directory_published_wrongly_is_found_out) {
  EXPECT_GT(sweep(publish_tree, whole_or_absent, kNoFileSync).violation_count, 0U);
  EXPECT_GT(sweep(publish_tree, whole_or_absent, kNoDirectorySync).violation_count, 0U);
  EXPECT_GT(sweep(publish_tree, whole_or_absent, kRenameFirst).violation_count, 0U);
  const Mutation no_sync_of_source = [](MutantFileOps& ops) {
    ops.drop(
        [](const MutantCall& call) { return call.op == "fsync_dir" && call.path == "/run/owner"; });
  };
  EXPECT_GT(sweep(publish_tree, whole_or_absent, no_sync_of_source).violation_count, 0U);
}

constexpr std::size_t kFileBytes = 5 * kModelBlockBytes + 77;

/// Writes a file through the engine, reserved first and cut to its size last.
void write_file(CutRun& run, FileOps& ops, CachePolicy policy) {
  Result<std::unique_ptr<Engine>> engine = run.disk().make_engine({.depth = 4});
  ASSERT_TRUE(engine.ok());
  Result<File> file = File::create(ops, "/run/data", {.policy = policy});
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_TRUE(file->preallocate(8 * kModelBlockBytes).ok());
  const std::size_t size = 6 * kModelBlockBytes;
  const std::unique_ptr<std::byte, decltype(&std::free)> memory(
      static_cast<std::byte*>(std::aligned_alloc(kModelBlockBytes, size)), &std::free);
  std::fill_n(memory.get(), size, std::byte{'w'});
  for (std::uint64_t offset = 0; offset < kFileBytes; offset += 2 * kModelBlockBytes) {
    const std::size_t length = std::min<std::size_t>(2 * kModelBlockBytes, kFileBytes - offset);
    const Result<Request> request =
        file->plan_write(offset, length, {memory.get(), 2 * kModelBlockBytes});
    ASSERT_TRUE(request.ok()) << request.status().message();
    ASSERT_TRUE(perform(**engine, *request).ok());
    std::fill_n(memory.get(), size, std::byte{'w'});  // what was padding is data again
  }
  ASSERT_TRUE(file->finish(kFileBytes).ok());
  run.note("finished");
  ASSERT_TRUE(std::move(*file).close().ok());
  ASSERT_TRUE(ops.fsync_dir("/run").ok());
  run.note("named");
}

std::string finished_is_exact(ModelDisk& disk, const CutPoint& point) {
  const std::optional<std::string> found = text_of(disk, "/run/data");
  if (!found) return point.has("named") ? "the file is gone" : "";
  const bool is_exact = found == std::string(kFileBytes, 'w');
  return point.has("finished") && !is_exact ? "a finished file is not exact" : "";
}

TEST_F(PublishCrashTest, a_finished_file_is_exact_wherever_its_name_is) {
  for (const CachePolicy policy : {CachePolicy::buffered, CachePolicy::automatic}) {
    const auto write = [&](CutRun& run, FileOps& ops) { write_file(run, ops, policy); };
    const std::string name = policy == CachePolicy::buffered ? "buffered_" : "automatic_";
    expect_sound(sweep(write, finished_is_exact, kNone), 200, name);
    EXPECT_GT(sweep(write, finished_is_exact, kNoFileSync).violation_count, 0U);
    EXPECT_GT(sweep(write, finished_is_exact, kNoDirectorySync).violation_count, 0U);
  }
}

}  // namespace
}  // namespace stoker::testing
