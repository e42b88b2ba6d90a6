// A generation is given to one checkpoint only, so that what was said about one that is gone does
// not hold for another.
#include <gtest/gtest.h>

#include <filesystem>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/save_support.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

class GenerationsTest : public ::testing::Test {
 protected:
  std::unique_ptr<CheckpointSaver> start(const CheckpointParent& parent = {}) const {
    SaverOptions options = quiet_options(dir_.path());
    options.retention.keep_last = 1;
    options.retention.keep_best = KeepBest{.metric = "val"};
    if (parent.generation > 0) options.parent = parent;
    return make_saver(std::move(options));
  }
  void save(CheckpointSaver& saver, std::uint64_t step) const {
    const Result<PendingSave> pending = saver.save(request_of(step, {counted("w", 50, 1)}));
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
  }
  std::uint64_t generation_of(std::uint64_t step) const {
    return manifest_in(dir_.file(step_name(step))).generation;
  }
  void save_with(CheckpointSaver& saver, std::uint64_t step, double value) const {
    save(saver, step);
    ASSERT_TRUE(
        annotate_checkpoint(opened(dir_.path()), step, generation_of(step), {{"val", value}}).ok());
  }
  std::vector<std::uint64_t> steps() const {
    std::vector<std::uint64_t> found;
    const Result<Catalog> catalog = list_checkpoints(opened(dir_.path()));
    for (const CatalogStep& step : catalog->steps)
      if (step.is_valid()) found.push_back(step.parsed.step);
    return found;
  }

  const TempDir dir_;
};

TEST_F(GenerationsTest, the_annotation_of_a_checkpoint_that_is_gone_ranks_no_other) {
  for (const bool is_damaged : {true, false}) {
    SCOPED_TRACE(is_damaged ? "damaged" : "removed");
    {
      const auto saver = start();
      save_with(*saver, 1, 0.5);
      save_with(*saver, 2, 0.01);
      ASSERT_TRUE(saver->close().ok());
    }
    const std::string last = dir_.file(step_name(2));
    if (is_damaged)
      fs::resize_file(last + "/manifest.json", 100);
    else
      fs::remove_all(last);
    const auto saver = start({.step = 1, .generation = generation_of(1)});
    save(*saver, 2);
    EXPECT_EQ(read_step_notes(opened(dir_.path()), 2)->count(generation_of(2)), 0U);
    save_with(*saver, 3, 0.3);
    save_with(*saver, 4, 0.4);
    save(*saver, 6);
    EXPECT_EQ(steps(), (std::vector<std::uint64_t>{6, 3}));
    ASSERT_TRUE(saver->close().ok());
    for (const auto& item : fs::directory_iterator(dir_.path())) fs::remove_all(item.path());
  }
}

TEST_F(GenerationsTest, the_pin_of_a_checkpoint_that_is_gone_keeps_no_other) {
  {
    const auto saver = start();
    for (const std::uint64_t step : {1U, 2U}) {
      save(*saver, step);
      ASSERT_TRUE(pin_checkpoint(opened(dir_.path()), step, generation_of(step), true).ok());
    }
    ASSERT_TRUE(saver->close().ok());
  }
  fs::remove_all(dir_.file(step_name(2)));
  const auto saver = start({.step = 1, .generation = generation_of(1)});
  save(*saver, 2);
  save(*saver, 3);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{3, 1}));
}

TEST_F(GenerationsTest, a_name_that_no_manifest_could_have_stops_nobody) {
  fs::create_directory(dir_.file("step-000000000001.superseded-18446744073709551615"));
  const auto saver = start();
  save(*saver, 1);
  EXPECT_EQ(generation_of(1), 1U);
}

}  // namespace
}  // namespace stoker::testing
