// What an ordinary user of `stoker checkpoint` runs into.
#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <fstream>

#include "cli/checkpoint_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class CheckpointTrapsCliTest : public CheckpointCli {
 protected:
  /// A checkpoint with the named tensors of four floats each, the first value in `first`.
  void save_named(const std::vector<std::pair<std::string, float>>& named) {
    Result<std::unique_ptr<CheckpointSaver>> saver =
        CheckpointSaver::make(quiet_options(run_dir()));
    ASSERT_TRUE(saver.ok()) << saver.status().message();
    std::vector<OwnedTensor> tensors;
    for (const auto& [name, first] : named) tensors.push_back(counted(name, 4, first));
    const Result<PendingSave> pending = (*saver)->save(request_of(1, tensors));
    ASSERT_TRUE(pending.ok() && pending->wait().ok());
    ASSERT_TRUE((*saver)->close().ok());
  }
};

TEST_F(CheckpointTrapsCliTest, every_command_says_that_there_are_no_checkpoints) {
  const std::string missing = dir_.file("nothing");
  const std::string empty = dir_.file("empty");
  std::filesystem::create_directory(empty);
  const std::vector<std::vector<std::string>> commands = {
      {"show", "DIR"},
      {"show", "DIR", "5"},
      {"verify", "DIR"},
      {"verify", "DIR", "--all"},
      {"diff", "DIR", "1", "2"},
      {"export", "DIR", "latest", dir_.file("o.safetensors")},
      {"pin", "DIR", "5"},
      {"unpin", "DIR", "5"},
      {"annotate", "DIR", "5", "a=1"},
      {"prune", "DIR", "--keep-last", "1"}};
  for (std::vector<std::string> args : commands) {
    for (const std::string& directory : {missing, empty}) {
      args[1] = directory;
      const Ran ran = run(args);
      EXPECT_EQ(ran.exit_code, 1) << args[0];
      EXPECT_TRUE(is_one_line_with(ran.err, {"no checkpoints in " + directory})) << ran.err;
      EXPECT_EQ(ran.err.find("lstat"), std::string::npos) << ran.err;
    }
  }
  const Ran listed = run({"ls", missing});
  EXPECT_EQ(listed.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(listed.err, {"no checkpoints in " + missing, "no such directory"}))
      << listed.err;
  EXPECT_EQ(run({"ls", empty}).out, "no checkpoints in " + empty + "\n");
  save({10});
  const Ran inside = run({"ls", step_dir(10)});
  EXPECT_EQ(inside.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(inside.err, {"is a checkpoint itself"})) << inside.err;
}

TEST_F(CheckpointTrapsCliTest, an_empty_text_is_no_checkpoint) {
  save({10});
  const std::vector<std::vector<std::string>> commands = {
      {"pin", run_dir(), ""},
      {"unpin", run_dir(), ""},
      {"show", run_dir(), ""},
      {"annotate", run_dir(), "", "a=1"},
      {"diff", run_dir(), "10", ""},
      {"export", run_dir(), "", dir_.file("o.safetensors")},
      {"verify", run_dir(), "--step", ""}};
  for (const std::vector<std::string>& args : commands) {
    const Ran ran = run(args);
    EXPECT_EQ(ran.exit_code, 2) << args[0] << ran.out;
    EXPECT_TRUE(is_one_line_with(ran.err, {"an empty text names no checkpoint"})) << ran.err;
  }
  EXPECT_FALSE(run_json({"ls", run_dir()})["checkpoints"][0]["pinned"].get<bool>());
}

TEST_F(CheckpointTrapsCliTest, ls_has_the_names_of_superseded_checkpoints) {
  save({10, 20});
  save({20});  // without a parent: a run that begins anew
  const std::string name = superseded_name(20, 2);
  EXPECT_NE(run({"ls", run_dir()}).out.find(name), std::string::npos);
  EXPECT_EQ(run({"show", run_dir(), name}).exit_code, 0);
}

TEST_F(CheckpointTrapsCliTest, something_else_in_the_place_of_notes_is_a_failure_and_no_misuse) {
  save({10, 20});
  const std::string notes = run_dir() + "/notes";
  const std::vector<std::function<void()>> plants = {
      [&] { std::ofstream(notes) << "mine"; },
      [&] { std::filesystem::create_symlink("/nowhere", notes); },
      [&] { std::filesystem::create_directory_symlink(dir_.path(), notes); },
      [&] {
        const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
        ASSERT_LT(notes.size(), sizeof(address.sun_path));
        std::memcpy(address.sun_path, notes.data(), notes.size());
        ASSERT_EQ(::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
      }};
  for (std::size_t i = 0; i < plants.size(); ++i) {
    std::filesystem::remove_all(notes);
    plants[i]();
    for (const std::vector<std::string>& args : {std::vector<std::string>{"ls", run_dir()},
                                                 {"prune", run_dir(), "--keep-last", "1"},
                                                 {"show", run_dir()},
                                                 {"pin", run_dir(), "10"},
                                                 {"annotate", run_dir(), "10", "a=1"}}) {
      const Ran ran = run(args);
      EXPECT_EQ(ran.exit_code, 1) << i << args[0] << ran.err;
      EXPECT_TRUE(is_one_line_with(ran.err, {notes, "not a directory of notes"})) << i << ran.err;
    }
    EXPECT_TRUE(std::filesystem::exists(step_dir(10))) << "a pin may be there that nobody can read";
  }
}

TEST_F(CheckpointTrapsCliTest, hf_takes_the_model_and_says_what_it_has_left_out) {
  save_named({{"model.a.weight", 1}, {"model.b", 2}, {"optimizer.state.0.m", 3}, {"ema.b", 4}});
  const std::string out = dir_.file("model");
  const Ran ran = run({"export", run_dir(), "latest", out, "--hf"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("2 tensors in 1 file"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("left out: ema (1 tensor, 16 B)\nleft out: optimizer (1 tensor, 16 B)\n"),
            std::string::npos)
      << ran.out;
  const std::string file = contents_of(out + "/model.safetensors");
  EXPECT_NE(file.find(R"("a.weight":)"), std::string::npos);
  EXPECT_NE(file.find(R"("b":)"), std::string::npos);
  EXPECT_EQ(file.find("model."), std::string::npos);
  const json left = run_json({"export", run_dir(), "latest", dir_.file("two"), "--hf"})["left_out"];
  EXPECT_EQ(left, json::parse(R"([{"tree": "ema", "tensors": 1, "size_bytes": 16},
                                  {"tree": "optimizer", "tensors": 1, "size_bytes": 16}])"));
  // Told otherwise, it does as it is told.
  const json told = run_json(
      {"export", run_dir(), "latest", dir_.file("ema"), "--hf", "--only", "ema.", "--strip", "e"});
  EXPECT_EQ(told["tensors"], 1);
  EXPECT_TRUE(told["left_out"].empty());
  EXPECT_NE(contents_of(dir_.file("ema/model.safetensors")).find(R"("ma.b":)"), std::string::npos);
}

TEST_F(CheckpointTrapsCliTest, hf_takes_off_what_wrappers_have_put_before_every_name) {
  save_named({{"model.module._orig_mod.a", 1}, {"model.module._orig_mod.module.b", 2}});
  const std::string out = dir_.file("model");
  EXPECT_EQ(run({"export", run_dir(), "latest", out, "--hf"}).exit_code, 0);
  const std::string file = contents_of(out + "/model.safetensors");
  EXPECT_NE(file.find(R"("a":)"), std::string::npos);
  EXPECT_NE(file.find(R"("module.b":)"), std::string::npos);
}

TEST_F(CheckpointTrapsCliTest, hf_without_a_model_says_what_there_is) {
  save_named({{"state.model.a", 1}, {"state.optimizer.m", 2}});
  const Ran nested = run({"export", run_dir(), "latest", dir_.file("out"), "--hf"});
  EXPECT_EQ(nested.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(
      nested.err, {"no tree `model`", R"(--only "state.model.")", R"(--strip "state.model.")"}))
      << nested.err;
  std::filesystem::remove_all(run_dir());
  save_named({{"net.a", 1}, {"optimizer.m", 2}});
  const Ran other = run({"export", run_dir(), "latest", dir_.file("out"), "--hf"});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(other.err, {"no tree `model`", R"("net.", "optimizer.")"}))
      << other.err;
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out")));
}

TEST_F(CheckpointTrapsCliTest, only_that_matches_nothing_gets_suggestions) {
  save_named({{"model.enc.w", 1}, {"model.dec.w", 2}, {"optimizer.m", 3}});
  const auto refused = [&](const std::vector<std::string>& only, const std::string& out) {
    std::vector<std::string> args = {"export", run_dir(), "latest", dir_.file(out)};
    for (const std::string& prefix : only) args.insert(args.end(), {"--only", prefix});
    const Ran ran = run(args);
    EXPECT_EQ(ran.exit_code, 2) << ran.out;
    EXPECT_EQ(std::count(ran.err.begin(), ran.err.end(), '\n'), 1) << ran.err;
    return ran.err;
  };
  EXPECT_NE(refused({"modle."}, "o.safetensors")
                .find(R"(--only "modle.": no tensor name begins with that; there are )"
                      R"("model.", "optimizer.")"),
            std::string::npos);
  // One of several, and for torch as well.
  EXPECT_NE(refused({"model.", "model.encoder.w"}, "o.pt")
                .find(R"(there are "model.dec.", "model.enc.")"),
            std::string::npos);
}

TEST_F(CheckpointTrapsCliTest, a_file_of_torch_is_handed_over_whatever_its_name) {
  const std::string python = dir_.file("python");
  std::ofstream(python) << "#!/bin/sh\nshift 2\nprintf '%s\\n' \"$@\"\n";
  std::filesystem::permissions(python, std::filesystem::perms::owner_all);
  for (const char* const begin : {"PK\x03\x04", "\x80\x02\x8a\x0a"}) {
    const std::string file = dir_.file("weights");
    std::ofstream(file) << begin << "and more";
    const Ran ran =
        run_stoker({.args = {"checkpoint", "import", dir_.file("fresh"), file, "--step", "7"},
                    .environment = {{"STOKER_PYTHON", python}}});
    EXPECT_NE(ran.out.find("import\n--step=7\n--\n"), std::string::npos) << ran.out << ran.err;
  }
}

}  // namespace
}  // namespace stoker::testing
