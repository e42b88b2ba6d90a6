// `stoker checkpoint prune`, `pin`, `unpin` and `annotate`.
#include <algorithm>
#include <utility>

#include "checkpoint/directory/writer_lock.h"
#include "cli/checkpoint_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class CheckpointPruneCliTest : public CheckpointCli {
 protected:
  std::vector<std::uint64_t> steps() const {
    const json list = run_json({"ls", run_dir()});
    std::vector<std::uint64_t> found;
    for (const json& step : list["checkpoints"]) found.push_back(step["step"]);
    return found;
  }
};

TEST_F(CheckpointPruneCliTest, dry_run_says_what_goes_and_removes_nothing) {
  save({10, 20, 30});
  const Ran ran = run({"prune", run_dir(), "--keep-last", "1", "--dry-run"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("would remove step-000000000010"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("would remove step-000000000020"), std::string::npos) << ran.out;
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{30, 20, 10}));
}

TEST_F(CheckpointPruneCliTest, rules_add_up_and_pinned_ones_stay) {
  save({10, 20, 25, 30, 40});
  ASSERT_EQ(run({"pin", run_dir(), "25"}).exit_code, 0);
  const json report = run_json({"prune", run_dir(), "--keep-last", "1", "--keep-every", "20"});
  EXPECT_EQ(report["removed"], json::array({step_name(10), step_name(30)}));
  EXPECT_EQ(report["kept"], 3);
  EXPECT_GT(report["removed_bytes"], 0);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{40, 25, 20}));
  ASSERT_EQ(run({"unpin", run_dir(), "25"}).exit_code, 0);
  EXPECT_EQ(run({"prune", run_dir(), "--keep-last", "1"}).exit_code, 0);
  EXPECT_EQ(steps(), std::vector<std::uint64_t>{40});
  for (const std::string& name : names_in(run_dir())) EXPECT_FALSE(name.starts_with(".trash"));
  EXPECT_EQ(run({"verify", run_dir(), "--all"}).exit_code, 0);
}

TEST_F(CheckpointPruneCliTest, best_ones_go_by_their_annotations) {
  save({10, 20, 30, 40});
  for (const auto& [step, loss] : {std::pair{"10", "3"}, {"20", "1"}, {"30", "2"}})
    ASSERT_EQ(run({"annotate", run_dir(), step, std::string("val_loss=") + loss}).exit_code, 0);
  EXPECT_EQ(run({"prune", run_dir(), "--keep-best", "val_loss:min"}).exit_code, 0);
  EXPECT_EQ(steps(), (std::vector<std::uint64_t>{40, 20})) << "the newest always stays";
}

TEST_F(CheckpointPruneCliTest, best_by_a_value_that_no_checkpoint_has_is_misuse) {
  save({10, 20, 30});
  ASSERT_EQ(run({"annotate", run_dir(), "10", "val_loss=3"}).exit_code, 0);
  for (const std::vector<std::string>& more :
       std::vector<std::vector<std::string>>{{}, {"--dry-run"}, {"--keep-last", "1"}}) {
    std::vector<std::string> args = {"prune", run_dir(), "--keep-best", "val_los:min:1"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run(args);
    EXPECT_EQ(ran.exit_code, 2) << ran.out;
    EXPECT_NE(ran.err.find("has a value val_los; existing values: loss, val_loss"),
              std::string::npos)
        << ran.err;
  }
  EXPECT_EQ(steps().size(), 3U);
  ASSERT_EQ(run({"prune", run_dir(), "--keep-best", "val_loss:min"}).exit_code, 0);
  EXPECT_EQ(steps().size(), 3U) << "the others have no value yet";
}

TEST_F(CheckpointPruneCliTest, rules_that_make_no_sense_are_misuse) {
  save({10, 20});
  for (const std::vector<std::string>& rules :
       std::vector<std::vector<std::string>>{{},
                                             {"--keep-last", "0"},
                                             {"--keep-last", "-1"},
                                             {"--keep-last", "99999999999999999999"},
                                             {"--keep-every", "0"},
                                             {"--keep-every", "18446744073709551616"},
                                             {"--keep-best", "val_loss:min:99999999999999999999"},
                                             {"--keep-best", "val_loss"},
                                             {"--keep-best", "val_loss:least:1"},
                                             {"--keep-best", "val_loss:min:0"},
                                             {"--keep-best", "val_loss:min:x"},
                                             {"--keep-best", ":min:1"}}) {
    std::vector<std::string> args = {"prune", run_dir()};
    args.insert(args.end(), rules.begin(), rules.end());
    const Ran ran = run(args);
    EXPECT_EQ(ran.exit_code, 2) << ::testing::PrintToString(rules) << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
  EXPECT_EQ(steps().size(), 2U);
}

TEST_F(CheckpointPruneCliTest, directory_that_somebody_writes_is_left_alone) {
  save({10, 20});
  const Result<std::unique_ptr<WriterLock>> lock =
      WriterLock::acquire(testing::opened(run_dir()), {.ttl = nanoseconds(0)});
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  const Ran ran = run({"prune", run_dir(), "--keep-last", "1"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"another writer", run_dir()})) << ran.err;
  EXPECT_EQ(steps().size(), 2U);
  EXPECT_EQ(run({"prune", run_dir(), "--keep-last", "1", "--dry-run"}).exit_code, 0);
}

TEST_F(CheckpointPruneCliTest, directory_without_checkpoints_is_not_touched) {
  const std::string other = dir_.file("other");
  std::filesystem::create_directories(other + "/.trash-precious");
  const Ran ran = run({"prune", other, "--keep-last", "1"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"no checkpoints"})) << ran.err;
  EXPECT_EQ(names_in(other), std::vector<std::string>{".trash-precious"});
}

TEST_F(CheckpointPruneCliTest, damaged_note_is_told_and_its_step_stays) {
  save({10, 20});
  ASSERT_EQ(run({"annotate", run_dir(), "10", "x=1"}).exit_code, 0);
  flip_byte(run_dir() + "/" + note_path(10), 5);
  const Ran ran = run({"prune", run_dir(), "--keep-last", "1"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.err.find("counts as pinned"), std::string::npos) << ran.err;
  EXPECT_EQ(steps().size(), 2U);
  EXPECT_EQ(run({"annotate", run_dir(), "10", "x=2"}).exit_code, 1);
}

TEST_F(CheckpointPruneCliTest, values_that_are_no_numbers_are_misuse) {
  save({10});
  for (const char* value : {"val_loss", "=3", "val_loss=", "val_loss=x", "val_loss=1x"}) {
    const Ran ran = run({"annotate", run_dir(), "10", value});
    EXPECT_EQ(ran.exit_code, 2) << value;
    EXPECT_TRUE(is_one_line_with(ran.err, {value, "NAME=NUMBER"})) << ran.err;
  }
  EXPECT_EQ(run({"annotate", run_dir(), "10", "a=1", "a=2"}).exit_code, 2);
  EXPECT_EQ(run({"annotate", run_dir(), "10"}).exit_code, 2);
  EXPECT_EQ(run({"pin", run_dir(), "11"}).exit_code, 1);
  EXPECT_TRUE(run_json({"ls", run_dir()})["checkpoints"][0]["annotations"].empty());
}

TEST_F(CheckpointPruneCliTest, notes_are_told_to_programs_as_one_object) {
  save({10});
  const json pinned = {{"name", step_name(10)}, {"step", 10}, {"generation", 1}, {"pinned", true}};
  EXPECT_EQ(run_json({"pin", run_dir(), "10"}), pinned);
  EXPECT_EQ(run_json({"unpin", run_dir(), "latest"})["pinned"], false);
  const json values = {{"a", 2.5}, {"b", "nan"}};
  EXPECT_EQ(run_json({"annotate", run_dir(), "10", "a=2.5", "b=nan"})["values"], values);
}

TEST_F(CheckpointPruneCliTest, damaged_checkpoint_takes_no_note) {
  save({10});
  flip_byte(step_dir(10) + "/manifest.json", 40);
  const Ran ran = run({"pin", run_dir(), "10"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {step_name(10), "manifest.json"})) << ran.err;
}

}  // namespace
}  // namespace stoker::testing
