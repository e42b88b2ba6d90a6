// A directory of checkpoints that lies partly in the lower layer of an overlay filesystem, as in a
// container that was committed to an image: what is there cannot be renamed (EXDEV).
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/save_support.h"
#include "checkpoint/step_builder.h"
#include "support/recorded_disk.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

/// Layers on a tmpfs, which overlays take as an upper layer everywhere.
class Overlay {
 public:
  Overlay() {
    if (::mount("stoker-layers", dir_.path().c_str(), "tmpfs", 0, "size=64m") != 0) return;
    has_layers_ = true;
    for (const char* name : {"lower", "upper", "work", "merged"})
      fs::create_directory(dir_.file(name));
  }
  Overlay(const Overlay&) = delete;
  Overlay& operator=(const Overlay&) = delete;
  ~Overlay() {
    if (is_merged_) ::umount2(merged().c_str(), MNT_DETACH);
    if (has_layers_) ::umount2(dir_.path().c_str(), MNT_DETACH);
  }

  std::string lower() const { return dir_.file("lower"); }
  std::string merged() const { return dir_.file("merged"); }
  /// False where the kernel has none. Without redirects, as containers have it: a directory of the
  /// lower layer then keeps its name.
  bool mount() {
    const std::string options = "redirect_dir=off,lowerdir=" + lower() +
                                ",upperdir=" + dir_.file("upper") + ",workdir=" + dir_.file("work");
    is_merged_ = has_layers_ &&
                 ::mount("stoker-overlay", merged().c_str(), "overlay", 0, options.c_str()) == 0;
    return is_merged_;
  }

 private:
  TempDir dir_;
  bool has_layers_ = false;
  bool is_merged_ = false;
};

class OverlayTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const Status is_private = enter_private_mounts();
    if (!is_private.ok()) GTEST_SKIP() << is_private.message();
    overlay_.emplace();
  }
  /// Saves steps in the lower layer, as whoever made the image did.
  void save_below(const std::vector<std::uint64_t>& steps) const {
    const auto saver = make_saver(quiet_options(overlay_->lower()));
    for (const std::uint64_t step : steps) save(*saver, step);
    ASSERT_TRUE(saver->close().ok());
  }
  static void save(CheckpointSaver& saver, std::uint64_t step) {
    const Result<PendingSave> pending =
        saver.save(request_of(step, {counted("w", 50, static_cast<float>(step))}));
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
  }
  std::vector<std::uint64_t> steps() const {
    const Result<Catalog> catalog = list_checkpoints(opened(overlay_->merged()));
    EXPECT_TRUE(catalog.ok()) << catalog.status().message();
    std::vector<std::uint64_t> found;
    for (const CatalogStep& step : catalog->steps) found.push_back(step.parsed.step);
    return found;
  }
  void expect_whole_and_readable() const {
    const auto verified =
        verify_checkpoints(opened(overlay_->merged()), {.reader = plain_reader()});
    ASSERT_TRUE(verified.ok()) << verified.status().message();
    EXPECT_TRUE(verified->damages.empty()) << verified->damages[0].reason;
    for (const std::uint64_t step : steps()) {
      const CheckpointReader reader =
          open_step(posix_file_ops(), overlay_->merged() + "/" + step_name(step));
      EXPECT_EQ(read_whole(reader, "w"),
                float_bytes(counted("w", 50, static_cast<float>(step)).values));
    }
  }

  std::optional<Overlay> overlay_;
};

#define SKIP_WITHOUT_OVERLAY() \
  if (!overlay_->mount()) GTEST_SKIP() << "this kernel mounts no overlay filesystem here"

TEST_F(OverlayTest, a_leftover_of_a_writer_in_the_lower_layer_stops_nobody) {
  save_below({1});
  fs::create_directories(overlay_->lower() + "/owner-dead/attempt-1");
  std::ofstream(overlay_->lower() + "/owner-dead/attempt-1/rank-00000.safetensors") << "half";
  SKIP_WITHOUT_OVERLAY();
  std::error_code moved;
  fs::rename(overlay_->merged() + "/owner-dead", overlay_->merged() + "/owner-x", moved);
  ASSERT_EQ(moved.value(), EXDEV) << "this is what it is about";
  const auto saver = make_saver(quiet_options(overlay_->merged()));
  save(*saver, 2);
  save(*saver, 3);
  ASSERT_TRUE(saver->close().ok());
  EXPECT_FALSE(fs::exists(overlay_->merged() + "/owner-dead"));
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{3, 2, 1}));
  expect_whole_and_readable();
}

TEST_F(OverlayTest, retention_leaves_what_it_cannot_move_and_removes_the_rest) {
  save_below({1, 2});
  SKIP_WITHOUT_OVERLAY();
  SaverOptions options = quiet_options(overlay_->merged());
  options.retention.keep_last = 1;
  const auto saver = make_saver(std::move(options));
  for (const std::uint64_t step : {3U, 4U, 5U}) save(*saver, step);
  ASSERT_TRUE(saver->wait().ok()) << saver->wait().message();
  ASSERT_TRUE(saver->close().ok());
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{5, 2, 1}));
  expect_whole_and_readable();
}

TEST_F(OverlayTest, a_checkpoint_that_was_put_aside_in_the_lower_layer_is_not_lost) {
  save_below({1});
  fs::create_directory(overlay_->lower() + "/owner-dead");
  const std::string aside = aside_name({.purpose = AsideName::Purpose::keep,
                                        .step = {.step = 1, .superseded_generation = {}},
                                        .generation = 1});
  fs::rename(overlay_->lower() + "/" + step_name(1), overlay_->lower() + "/owner-dead/" + aside);
  SKIP_WITHOUT_OVERLAY();
  const auto saver = make_saver(quiet_options(overlay_->merged()));
  const Result<PendingSave> pending = saver->save(request_of(2, {counted("w", 50, 2)}));
  const Status status = pending.ok() ? pending->wait() : pending.status();
  EXPECT_EQ(status.code(), Code::unsupported) << status.message();
  EXPECT_NE(status.message().find("copy the directory"), std::string_view::npos)
      << status.message();
  EXPECT_TRUE(fs::exists(overlay_->merged() + "/owner-dead/" + aside + "/manifest.json"));
}

TEST_F(OverlayTest, a_step_of_the_lower_layer_can_be_restored_and_continued) {
  save_below({1});
  SKIP_WITHOUT_OVERLAY();
  expect_whole_and_readable();
  SaverOptions options = quiet_options(overlay_->merged());
  options.parent = CheckpointParent{.step = 1, .generation = 1};
  const auto saver = make_saver(std::move(options));
  EXPECT_EQ(saver->save(request_of(1, {counted("w", 50, 1)})).status().code(),
            Code::already_exists);
  save(*saver, 2);
  ASSERT_TRUE(saver->close().ok());
  EXPECT_EQ(manifest_in(overlay_->merged() + "/" + step_name(2)).parent->generation, 1U);
  expect_whole_and_readable();
}

TEST_F(OverlayTest, a_rewound_run_is_told_that_a_step_of_the_lower_layer_cannot_be_saved_again) {
  save_below({1, 2});
  SKIP_WITHOUT_OVERLAY();
  SaverOptions options = quiet_options(overlay_->merged());
  options.parent = CheckpointParent{.step = 1, .generation = 1};
  const auto saver = make_saver(std::move(options));
  const Result<PendingSave> pending = saver->save(request_of(2, {counted("w", 50, 2)}));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  const Status status = pending->wait();
  EXPECT_EQ(status.code(), Code::unsupported) << status.message();
  EXPECT_NE(status.message().find("copy the directory"), std::string_view::npos)
      << status.message();
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{2, 1}));
  EXPECT_EQ(fs::read_symlink(overlay_->merged() + "/latest"), step_name(2));
  expect_whole_and_readable();
  EXPECT_FALSE(saver->wait().ok()) << "told once more";
  save(*saver, 3);  // another step can be saved
  ASSERT_TRUE(saver->close().ok());
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{3, 2, 1}));
}

}  // namespace
}  // namespace stoker::testing
