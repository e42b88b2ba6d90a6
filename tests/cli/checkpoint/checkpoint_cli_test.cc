// `stoker checkpoint`: what looks at checkpoints and changes nothing.
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "cli/checkpoint_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class CheckpointCliTest : public CheckpointCli {};

TEST_F(CheckpointCliTest, ls_lists_the_newest_first_with_flags_and_values) {
  save({10, 20, 30});
  ASSERT_EQ(run({"pin", run_dir(), "10"}).exit_code, 0);
  ASSERT_EQ(run({"annotate", run_dir(), "20", "val_loss=2.25", "worst=inf"}).exit_code, 0);
  const json list = run_json({"ls", run_dir()});
  ASSERT_EQ(list["checkpoints"].size(), 3U);
  EXPECT_EQ(list["latest"], step_name(30));
  const json& newest = list["checkpoints"][0];
  EXPECT_EQ(newest["step"], 30);
  EXPECT_EQ(newest["generation"], 3);
  EXPECT_TRUE(newest["latest"]);
  EXPECT_EQ(newest["reference"]["loss"], 2.5);
  EXPECT_GT(newest["size_bytes"], kCount * sizeof(float));
  EXPECT_GE(newest["age_s"].get<double>(), 0);
  EXPECT_EQ(list["checkpoints"][1]["annotations"]["val_loss"], 2.25);
  EXPECT_EQ(list["checkpoints"][1]["annotations"]["worst"], "inf");
  EXPECT_TRUE(list["checkpoints"][2]["pinned"]);

  const Ran ran = run({"ls", run_dir()});
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* part : {"generation", "latest", "pinned", "loss=2.5", "val_loss=2.25", "30"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  EXPECT_LT(ran.out.find("\n  30"), ran.out.find("\n  10")) << ran.out;
}

TEST_F(CheckpointCliTest, ls_says_what_is_durable_and_verifies_when_asked) {
  save({10, 20});
  const json list = run_json({"ls", run_dir()});
  const bool is_durable = list["checkpoints"][0]["durable"];  // but where tests run in memory
  EXPECT_TRUE(list["checkpoints"][0]["verified"].is_null());
  const Ran plain = run({"ls", run_dir()});
  EXPECT_NE(plain.out.find(is_durable ? "yes      -" : "no       -"), std::string::npos)
      << plain.out;
  EXPECT_TRUE(run_json({"ls", run_dir(), "--verify"})["checkpoints"][1]["verified"]);
  flip_byte(data_file(10), 5'000);
  const json found = run_json({"ls", run_dir(), "--verify"}, 1);
  EXPECT_TRUE(found["checkpoints"][0]["verified"]);
  EXPECT_FALSE(found["checkpoints"][1]["verified"]);
  const Ran ran = run({"ls", run_dir(), "--verify"});
  EXPECT_EQ(ran.exit_code, 1);
  for (const char* part : {"durable", "verified", "DAMAGED"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  flip_byte(step_dir(20) + "/manifest.json", 40);
  EXPECT_FALSE(run_json({"ls", run_dir()})["checkpoints"][1]["durable"]) << "nobody can tell";
}

TEST_F(CheckpointCliTest, ls_says_what_is_in_memory_and_not_durable) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "no /dev/shm";
  const TempDir memory("/dev/shm");
  save({10});
  std::filesystem::copy(
      run_dir(), memory.file("run"),
      std::filesystem::copy_options::recursive | std::filesystem::copy_options::copy_symlinks);
  EXPECT_FALSE(run_json({"ls", memory.file("run")})["checkpoints"][0]["durable"]);
}

TEST_F(CheckpointCliTest, newest_is_what_the_manifests_say_wherever_latest_leads) {
  save({1, 2});
  const std::string latest = run_dir() + "/latest";
  std::filesystem::remove(latest);
  std::filesystem::create_symlink(step_name(1), latest);  // a crash before the link was moved
  flip_byte(data_file(2), 5'000);
  const auto expect_second = [&] {
    const json list = run_json({"ls", run_dir()});
    EXPECT_EQ(list["latest"], step_name(2));
    EXPECT_TRUE(list["checkpoints"][0]["latest"]);
    EXPECT_FALSE(list["checkpoints"][1]["latest"]);
    EXPECT_EQ(run_json({"show", run_dir()})["step"], 2);
    EXPECT_EQ(run({"verify", run_dir()}).exit_code, 1) << "the second is damaged";
  };
  expect_second();
  std::filesystem::remove(latest);
  expect_second();
}

TEST_F(CheckpointCliTest, verify_of_nothing_is_a_failure) {
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--all"}}) {
    std::vector<std::string> args = {"verify", dir_.path()};
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run(args);
    EXPECT_EQ(ran.exit_code, 1);
    EXPECT_TRUE(is_one_line_with(ran.err, {"no checkpoints"})) << ran.err;
  }
}

TEST_F(CheckpointCliTest, ls_says_what_is_not_there) {
  const Ran missing = run({"ls", dir_.file("nothing")});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_TRUE(
      is_one_line_with(missing.err, {"stoker checkpoint ls", "no checkpoints in", "nothing"}))
      << missing.err;
  const Ran empty = run({"ls", dir_.path()});
  EXPECT_EQ(empty.exit_code, 0) << empty.err;
  EXPECT_TRUE(is_one_line_with(empty.out, {"no checkpoints"})) << empty.out;
  EXPECT_EQ(dir_.entry_count(), 0) << "looking leaves nothing";
}

TEST_F(CheckpointCliTest, ls_shows_a_damaged_manifest_and_a_superseded_step) {
  save({10, 20});
  save({20});  // without a parent: a run that begins anew
  flip_byte(step_dir(10) + "/manifest.json", 40);
  const json list = run_json({"ls", run_dir()});
  ASSERT_EQ(list["checkpoints"].size(), 3U);
  int damaged = 0;
  int superseded = 0;
  for (const json& step : list["checkpoints"]) {
    damaged += step["damage"].is_null() ? 0 : 1;
    superseded += step["superseded"].get<bool>() ? 1 : 0;
    EXPECT_EQ(step["step"] == 10, !step["damage"].is_null());
  }
  EXPECT_EQ(damaged, 1);
  EXPECT_EQ(superseded, 1);
  const Ran ran = run({"ls", run_dir()});
  EXPECT_NE(ran.out.find("damaged"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(step_name(10) + ":"), std::string::npos) << ran.out;
  EXPECT_EQ(run({"show", run_dir(), superseded_name(20, 2)}).exit_code, 0);
}

/// CPU time of all children that have ended.
double children_cpu_s() {
  rusage used = {};
  ::getrusage(RUSAGE_CHILDREN, &used);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

TEST_F(CheckpointCliTest, show_takes_time_in_proportion_to_the_number_of_tensors) {
  constexpr std::size_t kFew = 4'000;
  const auto save_tensors = [&](std::uint64_t step, std::size_t count) {
    std::vector<OwnedTensor> tensors;
    for (std::size_t i = 0; i < count; ++i)
      tensors.push_back(counted("layer." + std::to_string(i), 1, static_cast<float>(i)));
    const auto saver = make_saver(quiet_options(run_dir()));
    const Result<PendingSave> pending = saver->save(request_of(step, tensors));
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    ASSERT_TRUE(pending->wait().ok());
    ASSERT_TRUE(saver->close().ok());
  };
  const auto least_cpu_s = [&](const char* step) {
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < 3; ++i) {
      const double before = children_cpu_s();
      EXPECT_EQ(run({"show", run_dir(), step}).exit_code, 0);
      least = std::min(least, children_cpu_s() - before);
    }
    return least;
  };
  save_tensors(1, kFew);
  save_tensors(2, 10 * kFew);
  // Ten times as long, or a hundred times if it looks through all tensors for each of them.
  EXPECT_LT(least_cpu_s("2"), 18 * least_cpu_s("1"));
}

TEST_F(CheckpointCliTest, show_names_tensors_files_and_state) {
  save({10, 20});
  const json shown = run_json({"show", run_dir()});
  EXPECT_EQ(shown["step"], 20);
  ASSERT_EQ(shown["tensors"].size(), 2U);
  const json& tensor = shown["tensors"][1];
  EXPECT_EQ(tensor["name"], "model.w");
  EXPECT_EQ(tensor["dtype"], "F32");
  EXPECT_EQ(tensor["shape"], json::array({kCount}));
  EXPECT_EQ(tensor["size_bytes"], kCount * sizeof(float));
  EXPECT_EQ(tensor["slices"][0]["file"], rank_file_name(0));
  EXPECT_EQ(shown["state"][0]["epoch"], 3);
  EXPECT_EQ(shown["extra"]["git"], "abc");

  const Ran ran = run({"show", run_dir(), "10"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* part : {"step-000000000010", "model.w", "F32", "[3000]", "11.7 KiB",
                           "rank-00000.safetensors", "model: dict of 1: 1 tensor", "epoch: 3"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
}

TEST_F(CheckpointCliTest, step_that_is_none_is_misuse_and_one_that_is_missing_a_failure) {
  save({10});
  for (const char* typed : {"ten", "-1", "10x", "../10", "18446744073709551616"}) {
    const Ran ran = run({"show", run_dir(), "--", typed});
    EXPECT_EQ(ran.exit_code, 2) << typed << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
  }
  const Ran missing = run({"show", run_dir(), "11"});
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(
      missing.err, {step_name(11), "the newest is " + step_name(10), "stoker checkpoint ls"}))
      << missing.err;
  EXPECT_EQ(run({"show"}).exit_code, 2);
  EXPECT_EQ(run({}).exit_code, 2);
  const Ran typo = run({"shwo", run_dir()});
  EXPECT_TRUE(is_one_line_with(typo.err, {"did you mean show?"})) << typo.err;
}

TEST_F(CheckpointCliTest, verify_names_file_offset_and_tensor_of_flipped_bytes) {
  constexpr std::size_t kLarge = 3 << 20;  // floats: three chunks
  save({10, 20}, kLarge);
  EXPECT_EQ(run({"verify", run_dir(), "--all"}).exit_code, 0);
  flip_byte(data_file(20), 5 << 20);
  flip_byte(data_file(20), 9 << 20);
  const Ran ran = run({"verify", run_dir()});
  EXPECT_EQ(ran.exit_code, 1);
  for (const char* part : {"step-000000000020/rank-00000.safetensors: offset 4194304",
                           "offset 8388608", "tensor model.w", "bad_bytes", "2 damaged pieces"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  const json report = run_json({"verify", run_dir(), "--all"}, 1);
  EXPECT_FALSE(report["ok"]);
  EXPECT_EQ(report["checkpoints"], 2);
  ASSERT_EQ(report["damages"].size(), 2U);
  EXPECT_EQ(report["damages"][0]["step"], step_name(20));
  EXPECT_EQ(report["damages"][0]["file"], rank_file_name(0));
  EXPECT_EQ(report["damages"][0]["offset_bytes"], 4 << 20);
  EXPECT_EQ(report["damages"][0]["tensors"], json::array({"model.w"}));
  EXPECT_EQ(run({"verify", run_dir(), "--step", "10"}).exit_code, 0) << "the other is whole";
}

TEST_F(CheckpointCliTest, verify_finds_missing_short_and_foreign_files_and_bad_manifests) {
  save({10, 20, 30, 40});
  std::filesystem::remove(data_file(10));
  std::filesystem::permissions(data_file(20), std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  std::filesystem::resize_file(data_file(20), 5'000);
  std::ofstream(step_dir(30) + "/stranger") << "x";
  flip_byte(step_dir(40) + "/manifest.json", 40);
  const json report = run_json({"verify", run_dir(), "--all"}, 1);
  std::map<std::string, std::string> kinds;
  for (const json& damage : report["damages"]) kinds[damage["step"]] = damage["kind"];
  EXPECT_EQ(kinds[step_name(10)], "missing_file");
  EXPECT_EQ(kinds[step_name(20)], "wrong_size");
  EXPECT_EQ(kinds[step_name(30)], "foreign_file");
  EXPECT_EQ(kinds[step_name(40)], "bad_manifest");
  const Ran latest = run({"verify", run_dir()});
  EXPECT_EQ(latest.exit_code, 1) << "the one a restore would try first must not be passed over";
  EXPECT_NE(latest.out.find("step-000000000040/manifest.json: bad_manifest"), std::string::npos)
      << latest.out;
}

TEST_F(CheckpointCliTest, verify_reports_a_latest_that_leads_nowhere) {
  save({10, 20});
  std::filesystem::remove_all(step_dir(20));
  const Ran ran = run({"verify", run_dir()});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE(ran.out.find("bad_latest"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("1 checkpoint,"), std::string::npos) << ran.out;
  const Ran show = run({"show", run_dir()});
  EXPECT_EQ(show.exit_code, 0) << show.err;
  EXPECT_NE(show.out.find(step_name(10)), std::string::npos) << "the newest that is there";
  EXPECT_EQ(run({"verify", run_dir(), "--step", "10", "--all"}).exit_code, 2);
}

TEST_F(CheckpointCliTest, a_checkpoint_given_as_the_directory_of_checkpoints_is_told_as_one) {
  save({10});
  for (const std::vector<std::string>& command : {std::vector<std::string>{"verify", step_dir(10)},
                                                  {"verify", step_dir(10), "--all"},
                                                  {"show", step_dir(10)},
                                                  {"prune", step_dir(10), "--keep-last", "1"}}) {
    const Ran ran = run(command);
    EXPECT_EQ(ran.exit_code, 1) << command.front();
    EXPECT_NE(ran.err.find("is a checkpoint itself; give the directory above it"),
              std::string::npos)
        << command.front() << ran.err;
  }
}

TEST_F(CheckpointCliTest, verify_ends_when_it_is_interrupted) {
  save({10}, 16 << 20);
  const Ran ran =
      run_interrupted([&](int) { return std::vector<std::string>{"verify", run_dir()}; });
  EXPECT_EQ(ran.exit_code, 130) << ran.err;
  EXPECT_EQ(ran.out, "") << "partial results are not results";
}

TEST_F(CheckpointCliTest, diff_tells_norms_of_what_changed) {
  save({10, 20});
  const json diff = run_json({"diff", run_dir(), "10", "20"});
  ASSERT_EQ(diff["changed"].size(), 1U);
  EXPECT_EQ(diff["changed"][0]["name"], "model.w");
  EXPECT_EQ(diff["changed"][0]["changed"], kCount);
  EXPECT_EQ(diff["changed"][0]["max_abs"], 10.0);
  EXPECT_NEAR(diff["changed"][0]["l2"].get<double>(), 10 * std::sqrt(double{kCount}), 1e-6);
  EXPECT_EQ(diff["unchanged"], 1);
  const Ran same = run({"diff", run_dir(), "10", "10"});
  EXPECT_EQ(same.exit_code, 0) << same.err;
  EXPECT_TRUE(is_one_line_with(same.out, {"0 changed", "2 the same"})) << same.out;
  flip_byte(data_file(20), 5'000);
  const Ran damaged = run({"diff", run_dir(), "10", "20"});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(damaged.err, {rank_file_name(0), "offset 0", "model.w"}))
      << damaged.err;
}

TEST_F(CheckpointCliTest, reader_that_goes_away_ends_it_silently) {
  save({10});
  for (const char* command : {"ls", "show", "verify"}) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    ::close(ends[0]);
    const UniqueFd closed_pipe(ends[1]);
    const Ran ran =
        run_stoker({.args = {"checkpoint", command, run_dir()}, .stdout_fd = closed_pipe.get()});
    EXPECT_EQ(ran.signal, SIGPIPE) << command << ran.err;
    EXPECT_EQ(ran.err, "");
  }
}

TEST_F(CheckpointCliTest, show_counts_what_a_state_is_made_of) {
  Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(quiet_options(run_dir()));
  ASSERT_TRUE(saver.ok());
  const std::vector<OwnedTensor> tensors = {counted("w", 8, 0), counted("one", 1, 0)};
  SaveRequest request = request_of(1, tensors);
  request.tensors[1].shape = {};
  request.state_json = R"({"a": {"!tuple": [{"!torch": "w"}, {"!tensor": "w"}, 1]},
    "b": {"!dict": [[1, {"!scalar": {"!tensor": "one"}}], [{"!tuple": [1, 2]}, null]]},
    "c": [[], {}, {"x": [true, "text", {"!bytes": "AA=="}]}],
    "d": {"!float": "nan"}, "e": {"!int": "12345678901234567890"}, "f": {"!torch": "w"},
    "g": {"!bytes": "AA=="}, "h": {"!complex": [1.0, 2.0]},
    "i": {"!ordered_dict": {"x": 1, "y": {"!torch": "w"}}},
    "j": {"!counter": {"!dict": [[30, 1], [60, 1]]}}, "k": {"!set": [1, 2, 3]},
    "l": {"!default_dict": ["list", {"x": []}]}, "m": {"!torch_size": [3, 4]}})";
  const Result<PendingSave> pending = (*saver)->save(std::move(request));
  ASSERT_TRUE(pending.ok() && pending->wait().ok());
  ASSERT_TRUE((*saver)->close().ok());
  const Ran ran = run({"show", run_dir()});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* line :
       {"a: tuple of 3: 2 tensors, 1 other value\n", "b: dict of 2: 1 tensor, 1 other value\n",
        "c: list of 3: 0 tensors, 3 other values\n", "d: \"nan\"\n",
        "e: \"12345678901234567890\"\n", "f: tensor w\n", "g: bytes\n",
        "i: ordered dict of 2: 1 tensor, 1 other value\n",
        "j: counter of 2: 0 tensors, 2 other values\n", "k: set of 3: 0 tensors, 3 other values\n",
        "l: default dict of 1: 0 tensors, 0 other values\n", "m: [3,4]\n"})
    EXPECT_NE(ran.out.find(line), std::string::npos) << line << "\n" << ran.out;
}

TEST_F(CheckpointCliTest, names_from_files_cannot_command_a_terminal) {
  Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(quiet_options(run_dir()));
  ASSERT_TRUE(saver.ok());
  const std::vector<OwnedTensor> tensors = {
      counted("w\x1b[2J\xc2\x9b"
              "2J\xc3\xa4",
              8, 0)};
  const Result<PendingSave> pending = (*saver)->save(request_of(1, tensors));
  ASSERT_TRUE(pending.ok() && pending->wait().ok());
  ASSERT_TRUE((*saver)->close().ok());
  const Ran ran = run({"show", run_dir()});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out.find('\x1b'), std::string::npos);
  EXPECT_EQ(ran.out.find('\x9b'), std::string::npos) << "CSI in one character";
  EXPECT_NE(ran.out.find("w?[2J?2J\xc3\xa4"), std::string::npos) << ran.out;
  EXPECT_EQ(run_json({"show", run_dir()})["tensors"][0]["name"], tensors[0].name);
}

}  // namespace
}  // namespace stoker::testing
