// Checkpoints that were made to break the commands, and directories that change under them.
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <thread>

#include "checkpoint/step_builder.h"
#include "cli/checkpoint_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class CheckpointHostileCliTest : public CheckpointCli {
 protected:
  /// Saves steps 10 and 20, and writes another manifest for the first: sealed, so that it counts.
  void save_with(const std::function<void(CheckpointManifest&)>& change) {
    save({10, 20});
    CheckpointManifest manifest = manifest_in(step_dir(10));
    change(manifest);
    std::filesystem::remove(step_dir(10) + "/manifest.json");
    write_built_file(posix_file_ops(), step_dir(10) + "/manifest.json",
                     format_checkpoint_manifest(manifest));
    std::filesystem::remove(run_dir() + "/.catalog");
  }
};

TEST_F(CheckpointHostileCliTest, a_time_that_is_none_is_shown_and_ends_no_command) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  for (const double time_s : {kNan, kInf, -kInf, 1e300, -1e300, 1e18, 253'402'300'800.0, -1.0}) {
    SCOPED_TRACE(time_s);
    std::filesystem::remove_all(run_dir());
    save_with([&](CheckpointManifest& manifest) { manifest.time_s = time_s; });
    for (const std::vector<std::string>& command :
         std::vector<std::vector<std::string>>{{"show", run_dir(), "10"},
                                               {"show", run_dir(), "10", "--json"},
                                               {"ls", run_dir()},
                                               {"ls", run_dir(), "--json", "--verify"},
                                               {"verify", run_dir(), "--all"},
                                               {"diff", run_dir(), "10", "20"}}) {
      const Ran ran = run(command);
      EXPECT_EQ(ran.exit_code, 0) << command[0] << " " << ran.signal << " " << ran.err;
      for (const char* word : {"nan d", "inf d", "000000000000"})
        if (command[0] == "ls" && command.size() == 2) {
          EXPECT_EQ(ran.out.find(word), std::string::npos) << ran.out;
        }
    }
    EXPECT_NE(run({"show", run_dir(), "10"}).out.find("at an invalid time"), std::string::npos);
  }
}

TEST_F(CheckpointHostileCliTest, the_greatest_generation_is_damage_and_saving_continues) {
  constexpr std::uint64_t kGreatest = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t generation : {kGreatest, kGreatest - 1, kGenerationMax + 1}) {
    SCOPED_TRACE(generation);
    std::filesystem::remove_all(run_dir());
    save_with([&](CheckpointManifest& manifest) { manifest.generation = generation; });
    const json listed = run_json({"ls", run_dir()});
    ASSERT_EQ(listed["checkpoints"].size(), 2U);
    EXPECT_EQ(listed["checkpoints"][0]["generation"], 2);
    EXPECT_TRUE(listed["checkpoints"][0]["damage"].is_null());
    EXPECT_EQ(listed["checkpoints"][1]["name"], step_name(10));
    EXPECT_TRUE(listed["checkpoints"][1]["damage"].is_string());
    const json verified = run_json({"verify", run_dir(), "--all"}, 1);
    ASSERT_EQ(verified["damages"].size(), 1U) << verified;
    EXPECT_EQ(verified["damages"][0]["kind"], "bad_manifest");
    EXPECT_EQ(verified["damages"][0]["step"], step_name(10));
    save({30, 40});
    EXPECT_EQ(run_json({"show", run_dir()})["generation"], 4);
    EXPECT_EQ(run({"show", run_dir(), "10"}).exit_code, 1);
  }
}

TEST_F(CheckpointHostileCliTest, the_last_generation_is_refused_by_the_next_save_with_its_reason) {
  save_with([](CheckpointManifest& manifest) { manifest.generation = kGenerationMax; });
  const auto saver = make_saver(quiet_options(run_dir()));
  const Result<PendingSave> pending = saver->save(request_of(30, {counted("w", 4, 1)}));
  const Status status = pending.ok() ? pending->wait() : pending.status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("generation"), std::string_view::npos) << status.message();
}

TEST_F(CheckpointHostileCliTest, more_files_than_descriptors_are_listed_as_whole) {
  constexpr std::uint64_t kRanks = 100;
  BuiltStep step{.step = 3, .ranks = std::vector<std::vector<BuiltTensor>>(kRanks)};
  for (std::uint64_t rank = 0; rank < kRanks; ++rank) {
    BuiltTensor slice = random_tensor("w", TensorType::f32, {1, 30}, rank);
    slice.global_shape = {kRanks, 30};
    slice.offsets = {rank, 0};
    step.ranks[rank] = {slice};
  }
  std::filesystem::create_directory(run_dir());
  write_built_step(posix_file_ops(), run_dir(), step);
  const auto has_few_descriptors = [] {
    constexpr rlimit kFew{64, 64};
    return ::setrlimit(RLIMIT_NOFILE, &kFew) == 0;
  };
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"ls", "--verify"}, {"verify"}, {"verify", "--all"}}) {
    std::vector<std::string> args = {"checkpoint"};
    args.insert(args.end(), words.begin(), words.end());
    args.push_back(run_dir());
    const Ran ran = run_stoker({.args = args, .in_child = has_few_descriptors});
    EXPECT_EQ(ran.exit_code, 0) << words[0] << ": " << ran.out << ran.err;
    EXPECT_EQ(ran.out.find("DAMAGED"), std::string::npos) << ran.out;
  }
}

TEST_F(CheckpointHostileCliTest, steps_that_vanish_under_a_fast_writer_are_not_missed) {
  save({1});
  std::atomic<bool> is_over{false};
  std::jthread writer([&] {
    SaverOptions options = quiet_options(run_dir());
    options.retention.keep_last = 1;
    const auto saver = make_saver(std::move(options));
    for (std::uint64_t step = 2; !is_over.load(); ++step) {
      const Result<PendingSave> pending = saver->save(request_of(step, {counted("w", 4, 1)}));
      EXPECT_TRUE(pending.ok() && pending->wait().ok());
    }
  });
  for (int i = 0; i < 30; ++i) {
    for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
             {"verify", run_dir()}, {"verify", run_dir(), "--all"}, {"show", run_dir()}}) {
      const Ran ran = run(command);
      EXPECT_EQ(ran.exit_code, 0) << command[0] << ": " << ran.out << ran.err;
    }
    EXPECT_EQ(run({"ls", run_dir()}).out.find("no checkpoints"), std::string::npos);
    if (HasFailure()) break;
  }
  is_over = true;
}

TEST_F(CheckpointHostileCliTest, an_import_does_not_wait_for_a_fifo) {
  const std::string fifo = dir_.file("model.safetensors");
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  const Ran ran = run({"import", run_dir(), fifo, "--step", "1"});
  EXPECT_EQ(ran.signal, 0);
  EXPECT_NE(ran.exit_code, 0);
  EXPECT_TRUE(is_one_line_with(ran.err, {fifo, "not a regular file"})) << ran.err;
  EXPECT_FALSE(std::filesystem::exists(run_dir()));
}

}  // namespace
}  // namespace stoker::testing
