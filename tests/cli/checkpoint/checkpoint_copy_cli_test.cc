// `stoker checkpoint export` and `import`.
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "cli/checkpoint_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class CheckpointCopyCliTest : public CheckpointCli {
 protected:
  /// Whether the real sha256sum agrees; 127 if there is none.
  static int check_sums(const std::string& directory, const std::string& sums) {
    const std::string command =
        "cd '" + directory + "' && sha256sum --strict -c '" + sums + "' >/dev/null 2>&1";
    return WEXITSTATUS(std::system(command.c_str()));  // NOLINT(concurrency-mt-unsafe)
  }

  /// With a Python that prints its words after the program, one in each line.
  Ran run_with_python(std::vector<std::string> args) const {
    const std::string python = dir_.file("python");
    std::ofstream(python) << "#!/bin/sh\nshift 2\nprintf '%s\\n' \"$@\"\n";
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    args.insert(args.begin(), "checkpoint");
    return run_stoker({.args = std::move(args), .environment = {{"STOKER_PYTHON", python}}});
  }
};

TEST_F(CheckpointCopyCliTest, export_writes_one_file_that_sha256sum_accepts) {
  save({10});
  const std::string out = dir_.file("out.safetensors");
  const json report = run_json({"export", run_dir(), "10", out});
  EXPECT_EQ(report["tensors"], 2);
  EXPECT_EQ(report["files"], json::array({out}));
  EXPECT_EQ(read_plainly(out, "model.w"), counted("", kCount, 10).values);
  const int sums = check_sums(dir_.path(), "out.safetensors.sha256");
  if (sums == 127) GTEST_SKIP() << "no sha256sum here";
  EXPECT_EQ(sums, 0);
  flip_byte(out, 5'000);
  EXPECT_EQ(check_sums(dir_.path(), "out.safetensors.sha256"), 1);
}

TEST_F(CheckpointCopyCliTest, export_chooses_and_shortens_names) {
  save({10});
  const std::string out = dir_.file("out.safetensors");
  const Ran ran =
      run({"export", "--only", "model.w", "--strip", "model.", run_dir(), "latest", out});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("1 tensor in 1 file"), std::string::npos) << ran.out;
  EXPECT_EQ(read_plainly(out, "w").size(), kCount);
  const Ran none = run({"export", run_dir(), "10", dir_.file("n.safetensors"), "--only", "x."});
  EXPECT_EQ(none.exit_code, 2) << none.err;
  const Ran typo =
      run({"export", run_dir(), "10", dir_.file("t.safetensors"), "--strip", "modle."});
  EXPECT_EQ(typo.exit_code, 2) << typo.err;
  EXPECT_NE(typo.err.find("--strip modle.: no exported name begins with that"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("t.safetensors")));
}

TEST_F(CheckpointCopyCliTest, export_to_a_hugging_face_directory) {
  save({10});
  const std::string out = dir_.file("model");
  EXPECT_EQ(run({"export", run_dir(), "10", out, "--hf"}).exit_code, 0);
  EXPECT_EQ(read_plainly(out + "/model.safetensors", "b").size(), 4U);
  const int sums = check_sums(out, "SHA256SUMS");
  EXPECT_TRUE(sums == 0 || sums == 127) << sums;
  const Ran again = run({"export", run_dir(), "10", out, "--hf"});
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(again.err, {out, "already exists"})) << again.err;
}

TEST_F(CheckpointCopyCliTest, export_replaces_nothing_and_leaves_nothing_of_a_damaged_one) {
  save({10});
  const std::string out = dir_.file("out.safetensors");
  std::ofstream(out) << "mine";
  EXPECT_EQ(run({"export", run_dir(), "10", out}).exit_code, 1);
  EXPECT_EQ(contents_of(out), "mine");
  std::filesystem::rename(out, dir_.file("other.safetensors.sha256"));
  const Ran taken = run({"export", run_dir(), "10", dir_.file("other.safetensors")});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(taken.err, {"other.safetensors.sha256"})) << taken.err;
  EXPECT_EQ(contents_of(dir_.file("other.safetensors.sha256")), "mine");
  flip_byte(data_file(10), 6'000);
  const Ran ran = run({"export", run_dir(), "10", dir_.file("bad.safetensors")});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {rank_file_name(0), "offset 0", "model.w"})) << ran.err;
  EXPECT_EQ(run({"export", run_dir(), "10", dir_.file("bad"), "--hf"}).exit_code, 1);
  EXPECT_EQ(dir_.entry_count(), 2) << "the run and the user's own file";
}

TEST_F(CheckpointCopyCliTest, what_torch_writes_and_reads_is_handed_over_to_python) {
  save({10});
  Ran ran = run_with_python({"export", run_dir(), "latest", dir_.file("out.pt"), "--only", "m",
                             "--only", "model.b", "--strip", "a.", "--json"});
  EXPECT_EQ(ran.out, "export\n--only=m\n--only=model.b\n--strip=a.\n--json\n--\n" + run_dir() +
                         "/" + step_name(10) + "\n" + dir_.file("out.pt") + "\n")
      << ran.err;
  std::ofstream(dir_.file("model.pt")) << "x";
  for (const std::string& file : {dir_.file("model.pt"), run_dir()}) {
    ran = run_with_python({"import", dir_.file("fresh"), file, "--step", "7", "--as", "net"});
    EXPECT_EQ(ran.out, "import\n--step=7\n--as=net\n--\n" + dir_.file("fresh") + "\n" + file + "\n")
        << ran.err;
  }
  // What can be refused is refused before Python starts.
  EXPECT_EQ(run_with_python({"import", run_dir(), dir_.file("model.pt"), "--step", "10"}).exit_code,
            1);
  EXPECT_EQ(run_with_python({"export", run_dir(), "11", dir_.file("out.pt")}).exit_code, 1);
  const Ran none = run_stoker(
      {.args = {"checkpoint", "import", dir_.file("fresh"), dir_.file("model.pt"), "--step", "1"},
       .environment = {{"STOKER_PYTHON", dir_.file("nowhere")}}});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(none.err, {"files of torch are read", "STOKER_PYTHON"})) << none.err;
  const Ran unclear = run({"export", run_dir(), "10", dir_.file("out")});
  EXPECT_EQ(unclear.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(unclear.err, {".safetensors", ".pt", "--hf"})) << unclear.err;
}

TEST_F(CheckpointCopyCliTest, interrupted_export_leaves_nothing) {
  save({10}, 16 << 20);
  const std::string out = dir_.file("out.safetensors");
  const Ran ran = run_interrupted([&](int) {
    std::filesystem::remove(out);
    std::filesystem::remove(out + ".sha256");
    return std::vector<std::string>{"export", run_dir(), "10", out};
  });
  EXPECT_EQ(ran.exit_code, 130) << ran.err;
  EXPECT_EQ(dir_.entry_count(), 1);
}

TEST_F(CheckpointCopyCliTest, import_makes_a_checkpoint_that_exports_to_the_same_bytes) {
  save({10});
  const std::string first = dir_.file("first.safetensors");
  ASSERT_EQ(run({"export", run_dir(), "10", first}).exit_code, 0);
  const std::string fresh = dir_.file("deep/er/run");
  const json report = run_json({"import", fresh, first, "--step", "7"});
  EXPECT_EQ(report["name"], step_name(7));
  EXPECT_EQ(report["tensors"], 2);
  expect_whole(fresh + "/" + step_name(7));
  const json shown = run_json({"show", fresh});
  EXPECT_EQ(shown["step"], 7) << "latest leads to it";
  EXPECT_EQ(shown["state"][0]["state"]["model.w"]["!tensor"], "state.model.w");
  EXPECT_EQ(shown["extra"]["imported_from"], "first.safetensors");
  const std::string second = dir_.file("second.safetensors");
  ASSERT_EQ(run({"export", fresh, "7", second, "--strip", "state."}).exit_code, 0);
  EXPECT_EQ(contents_of(first), contents_of(second));
}

TEST_F(CheckpointCopyCliTest, import_says_where_latest_leads_and_what_a_file_is_not) {
  save({10});
  const std::string file = dir_.file("one.safetensors");
  ASSERT_EQ(run({"export", run_dir(), "10", file}).exit_code, 0);
  const Ran imported = run({"import", dir_.file("fresh"), file, "--step", "7"});
  EXPECT_NE(imported.out.find("`latest` points to it now"), std::string::npos) << imported.out;
  std::ofstream(dir_.file("notes.txt")) << "This is neither.";
  const Ran neither = run({"import", dir_.file("fresh"), dir_.file("notes.txt"), "--step", "8"});
  EXPECT_EQ(neither.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(neither.err, {"notes.txt: neither a safetensors file nor one of"}))
      << neither.err;
  const Ran swapped = run({"import", file, dir_.file("new"), "--step", "9"});
  EXPECT_EQ(swapped.exit_code, 2) << swapped.err;
  EXPECT_TRUE(is_one_line_with(
      swapped.err, {file + ": a file; the directory for the checkpoint comes first",
                    "stoker checkpoint import " + dir_.file("new") + " " + file + " --step 9"}))
      << swapped.err;
  const Ran again = run({"export", run_dir(), "10", run_dir(), "--hf"});
  EXPECT_TRUE(is_one_line_with(again.err, {"already exists", "choose another name"})) << again.err;
}

TEST_F(CheckpointCopyCliTest, import_keeps_odd_names_apart_from_tags) {
  std::vector<SafetensorsEntry> entries = {
      {.name = "!tensor", .type = TensorType::u8, .shape = {3}},
      {.name = "empty", .type = TensorType::f64, .shape = {0, 2}}};
  const Result<std::string> header = format_safetensors(entries, {{"who", "me"}}, 8);
  ASSERT_TRUE(header.ok()) << header.status().message();
  std::ofstream(dir_.file("odd.safetensors"), std::ios::binary) << *header << "abc";
  const Ran ran =
      run({"import", run_dir(), dir_.file("odd.safetensors"), "--step", "0", "--as", "net"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json shown = run_json({"show", run_dir(), "0"});
  EXPECT_EQ(shown["extra"]["metadata"]["who"], "me");
  EXPECT_TRUE(shown["state"][0]["net"].contains("!dict")) << shown["state"].dump();
  EXPECT_EQ(run({"verify", run_dir()}).exit_code, 0);
}

TEST_F(CheckpointCopyCliTest, import_refuses_what_it_cannot_take_and_leaves_no_trace) {
  save({10});
  const std::string good = dir_.file("good.safetensors");
  ASSERT_EQ(run({"export", run_dir(), "10", good}).exit_code, 0);
  const std::string fresh = dir_.file("fresh");
  const std::string whole = contents_of(good);
  std::ofstream(dir_.file("cut.safetensors"), std::ios::binary)
      << whole.substr(0, whole.size() - 1);
  std::ofstream(dir_.file("tiny.safetensors")) << "abc";
  std::ofstream(dir_.file("none.safetensors"));
  const auto refused = [&](const std::string& file, int exit_code, const char* part) {
    const Ran ran = run({"import", fresh, file, "--step", "1"});
    EXPECT_EQ(ran.exit_code, exit_code) << file << ran.err;
    EXPECT_TRUE(is_one_line_with(ran.err, {file, part})) << ran.err;
  };
  refused(dir_.file("nothing.safetensors"), 1, "No such file");
  refused(dir_.file("cut.safetensors"), 1, "cut.safetensors");
  refused(dir_.file("tiny.safetensors"), 1, "3 bytes");
  refused(dir_.file("none.safetensors"), 1, "none.safetensors");
  EXPECT_FALSE(std::filesystem::exists(fresh));
  EXPECT_EQ(run({"import", fresh, good}).exit_code, 2) << "--step is needed";
  for (const char* step : {"-1", "18446744073709551616", "99999999999999999999"})
    EXPECT_EQ(run({"import", fresh, good, "--step", step}).exit_code, 2) << step;
  for (const char* name : {"", "!net", "a.b", "3d", "loader", "finite"})
    EXPECT_EQ(run({"import", fresh, good, "--step", "1", "--as", name}).exit_code, 2) << name;
  EXPECT_FALSE(std::filesystem::exists(fresh));
  const Ran taken = run({"import", run_dir(), good, "--step", "10"});
  EXPECT_EQ(taken.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(taken.err, {step_name(10), "--step"})) << taken.err;
}

TEST_F(CheckpointCopyCliTest, import_sweeps_nobody_elses_directory) {
  save({10});
  const std::string good = dir_.file("good.safetensors");
  ASSERT_EQ(run({"export", run_dir(), "10", good}).exit_code, 0);
  const std::string other = dir_.file("other");
  std::filesystem::create_directories(other + "/.trash-precious");
  const Ran ran = run({"import", other, good, "--step", "1"});
  EXPECT_EQ(ran.exit_code, 2) << ran.err;
  EXPECT_EQ(names_in(other), std::vector<std::string>{".trash-precious"});
}

TEST_F(CheckpointCopyCliTest, interrupted_import_commits_nothing_and_leaves_no_staging) {
  save({10}, 24 << 20);
  const std::string good = dir_.file("good.safetensors");
  ASSERT_EQ(run({"export", run_dir(), "10", good}).exit_code, 0);
  std::string fresh;
  const Ran ran = run_interrupted([&](int attempt) {
    fresh = dir_.file("fresh-" + std::to_string(attempt));
    return std::vector<std::string>{"import", fresh, good, "--step", "1"};
  });
  EXPECT_EQ(ran.exit_code, 130) << ran.err;
  EXPECT_TRUE(is_one_line_with(ran.err, {"nothing was committed"})) << ran.err;
  for (const std::string& name : names_in(fresh)) EXPECT_TRUE(name.starts_with(".lock")) << name;
}

}  // namespace
}  // namespace stoker::testing
