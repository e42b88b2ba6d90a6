// A device that fails and keeps failing: from some moment on no write and no sync succeeds. What
// was acknowledged before stays, and nothing is acknowledged any more.
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/save_support.h"
#include "support/hooked_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

/// What fails from some moment on.
enum class Sticky : std::uint8_t { syncs, syncs_and_writes };

bool touches_device(Sticky sticky, std::string_view op) {
  if (op == "fsync" || op == "fdatasync" || op == "fsync_dir") return true;
  return sticky == Sticky::syncs_and_writes && op == "pwrite";
}

/// Saves steps one after the other, whatever becomes of them.
class StickyRun {
 public:
  StickyRun(const std::string& directory, FileOps& ops) {
    SaverOptions options = quiet_options(directory);
    options.ops = &ops;
    options.copy_threads = 1;
    options.retention = {.keep_last = 2};
    saver_ = make_saver(std::move(options));
  }
  /// Whether it says that it is committed.
  bool save(std::uint64_t step) {
    const std::vector<OwnedTensor> tensors = {counted("w", 100, static_cast<float>(step))};
    Result<PendingSave> pending = saver_->save(request_of(step, tensors));
    if (!pending.ok())
      pending = saver_->save(request_of(step, tensors));  // an old error is told once
    if (!pending.ok()) return false;
    static_cast<void>(pending->wait());
    return pending->is_durable();
  }
  void close() const { static_cast<void>(saver_->close()); }

 private:
  std::unique_ptr<CheckpointSaver> saver_;
};

class StickyFailureTest : public ::testing::TestWithParam<Sticky> {};

TEST_P(StickyFailureTest, of_syncs_acknowledges_nothing_from_any_moment_on) {
  int moments = 0;
  int failed_saves = 0;
  for (bool has_failed = true; has_failed; ++moments) {
    SCOPED_TRACE("from moment " + std::to_string(moments) + " on");
    const TempDir dir(fast_parent());
    std::atomic<int> left = moments;
    std::atomic<bool> is_broken = false;
    HookedFileOps ops(posix_file_ops(), [&](std::string_view op, const PathAt* path) {
      if (!touches_device(GetParam(), op)) return Status();
      if (left.fetch_sub(1) > 0) return Status();
      is_broken = true;
      return Status::from_errno(EIO, std::string(op), path == nullptr ? "" : path->text());
    });
    std::vector<std::uint64_t> committed;
    {
      StickyRun run(dir.path(), ops);
      for (std::uint64_t step = 1; step <= 4; ++step) {
        const bool was_broken = is_broken;
        if (run.save(step)) {
          committed.push_back(step);
          EXPECT_FALSE(was_broken) << "step " << step << " is said to be committed";
        } else {
          EXPECT_TRUE(is_broken) << "step " << step;
          ++failed_saves;
        }
      }
      run.close();
    }
    has_failed = is_broken;
    if (!has_failed) break;
    // Another writer, and notes, on the same device.
    StickyRun other(dir.path(), ops);
    EXPECT_FALSE(other.save(5));
    other.close();
    const CheckpointDirectory directory = opened(dir.path());
    EXPECT_FALSE(pin_checkpoint(directory.with(ops), 1, 1, true).ok());
    // Those of the newest two that were acknowledged are there, whatever the directory holds else.
    const Result<Catalog> catalog = list_checkpoints(directory);
    ASSERT_TRUE(catalog.ok()) << catalog.status().message();
    for (std::size_t i = committed.size() > 2 ? committed.size() - 2 : 0; i < committed.size(); ++i)
      EXPECT_NE(catalog->find(step_name(committed[i])), nullptr) << "step " << committed[i];
    for (const CatalogStep& step : catalog->steps) expect_whole(dir.file(step.name));
    StickyRun healed(dir.path(), posix_file_ops());
    EXPECT_TRUE(healed.save(6)) << "on a new device";
    healed.close();
  }
  std::printf("%d moments, %d saves failed\n", moments, failed_saves);
  RecordProperty("moments", moments);
  EXPECT_GT(moments, 20);
}

INSTANTIATE_TEST_SUITE_P(All, StickyFailureTest,
                         ::testing::Values(Sticky::syncs, Sticky::syncs_and_writes),
                         [](const auto& named) {
                           return named.param == Sticky::syncs ? "syncs" : "syncs_and_writes";
                         });

}  // namespace
}  // namespace stoker::testing
