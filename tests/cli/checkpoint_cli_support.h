#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "checkpoint/save_support.h"
#include "cli/run_command.h"

namespace stoker::testing {

/// A directory of checkpoints, made by the library, and `stoker checkpoint` run on it.
class CheckpointCli : public ::testing::Test {
 protected:
  static constexpr std::size_t kCount = 3'000;

  std::string run_dir() const { return dir_.file("run"); }
  std::string step_dir(std::uint64_t step) const { return run_dir() + "/" + step_name(step); }
  std::string data_file(std::uint64_t step) const {
    return step_dir(step) + "/" + rank_file_name(0);
  }

  /// `w` counts from the step's number on; `b` never changes.
  void save(const std::vector<std::uint64_t>& steps, std::size_t count = kCount) {
    Result<std::unique_ptr<CheckpointSaver>> saver =
        CheckpointSaver::make(quiet_options(run_dir()));
    ASSERT_TRUE(saver.ok()) << saver.status().message();
    for (const std::uint64_t step : steps) {
      const std::vector<OwnedTensor> tensors = {counted("model.w", count, static_cast<float>(step)),
                                                counted("model.b", 4, 0)};
      SaveRequest request = request_of(step, tensors);
      request.state_json = R"({"model": {"w": {"!tensor": "model.w"}}, "epoch": 3})";
      request.extra_json = R"({"git": "abc"})";
      request.reference = {{"loss", 2.5}};
      const Result<PendingSave> pending = (*saver)->save(std::move(request));
      ASSERT_TRUE(pending.ok()) << pending.status().message();
      ASSERT_TRUE(pending->wait().ok());
    }
    ASSERT_TRUE((*saver)->close().ok());
  }

  static Ran run(std::vector<std::string> args) {
    args.insert(args.begin(), "checkpoint");
    return run_stoker({.args = std::move(args)});
  }

  /// Runs it with --json, and expects that exit status.
  static nlohmann::json run_json(std::vector<std::string> args, int exit_code = 0) {
    args.emplace_back("--json");
    const Ran ran = run(std::move(args));
    EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
    nlohmann::json parsed = nlohmann::json::parse(ran.out, nullptr, false);
    EXPECT_FALSE(parsed.is_discarded()) << ran.out;
    return parsed;
  }

  /// Committed files are read-only, so that nobody does this by accident.
  static void flip_byte(const std::string& path, std::uint64_t offset_bytes) {
    ASSERT_EQ(::chmod(path.c_str(), 0644), 0);
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    char byte = 0;
    ASSERT_EQ(::pread(fd.get(), &byte, 1, static_cast<off_t>(offset_bytes)), 1);
    byte = static_cast<char>(byte ^ 1);
    ASSERT_EQ(::pwrite(fd.get(), &byte, 1, static_cast<off_t>(offset_bytes)), 1);
  }

  static std::vector<std::string> names_in(const std::string& directory) {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(directory))
      names.push_back(entry.path().filename().string());
    return names;
  }

  TempDir dir_;
};

/// For Run::in_child: Ctrl-C has been pressed before the command begins, and waits for it.
inline bool press_ctrl_c() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGINT);
  // For the process: raise() would be for this thread, and the command has another that waits.
  return ::sigprocmask(SIG_BLOCK, &set, nullptr) == 0 && ::kill(::getpid(), SIGINT) == 0;
}

/// Runs `stoker checkpoint` with the arguments for each attempt until one is interrupted: it may be
/// done before it sees the signal, but not every time.
inline Ran run_interrupted(const std::function<std::vector<std::string>(int)>& args_for) {
  constexpr int kAttempts = 10;
  Ran ran;
  for (int attempt = 0; attempt < kAttempts && ran.exit_code <= 0; ++attempt) {
    std::vector<std::string> args = args_for(attempt);
    args.insert(args.begin(), "checkpoint");
    ran = run_stoker({.args = std::move(args), .in_child = press_ctrl_c});
  }
  return ran;
}

}  // namespace stoker::testing
