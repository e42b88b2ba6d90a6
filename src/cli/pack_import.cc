#include "cli/pack_import.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "dataset/import_kind.h"

namespace stoker::cli {
namespace {

constexpr std::array<std::string_view, 7> kPythonKinds = {"parquet", "petastorm", "arrow", "hf",
                                                          "hdf5",    "lmdb",      "text"};

/// Without the current directory, from which Python would import what happens to lie there.
constexpr const char* kStart = R"(import sys
sys.path = [place for place in sys.path if place]
try:
    from stoker._pack_command import main
except ImportError as error:
    sys.exit(f"stoker pack: this is packed by Stoker's Python package, which {sys.executable} cannot "
             f"import ({error}): pip install stoker, or name another Python by STOKER_PYTHON")
sys.exit(main())
)";

std::vector<std::pair<std::string, std::string>> named(const ImportArguments& arguments) {
  return {{"--columns", arguments.columns},
          {"--where", arguments.where},
          {"--key", arguments.key},
          {"--field", arguments.field},
          {"--datasets", arguments.datasets},
          {"--schema", arguments.schema},
          {"--tokenizer", arguments.tokenizer},
          {"--eod", arguments.eod},
          {"--text-field", arguments.text_field}};
}

std::string interpreter() {
  if (const char* const chosen = std::getenv("STOKER_PYTHON"); chosen != nullptr && *chosen != '\0')
    return chosen;
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  for (const char* name : {"python3", "python"}) {
    const std::filesystem::path beside = self.parent_path() / name;
    std::error_code unknown;
    if (!failed && std::filesystem::is_regular_file(beside, unknown) &&
        ::access(beside.c_str(), X_OK) == 0)
      return beside;
  }
  return "python3";
}

/// `--name=value`, so that no value can be taken for an option.
std::vector<std::string> command_line(const std::string& source, const std::string& kind,
                                      const PackArguments& pack, const ImportArguments& arguments) {
  std::vector<std::string> words = {"-c", kStart, "--from=" + kind, "--format=" + pack.format};
  std::vector<std::pair<std::string, std::string>> options = named(arguments);
  options.insert(options.end(), {{"--shard-size", pack.shard_size},
                                 {"--shuffle-seed", pack.shuffle_seed},
                                 {"--prefix", pack.prefix},
                                 {"--task", pack.task}});
  for (const auto& [name, value] : options)
    if (!value.empty()) words.push_back(name + "=" + value);
  if (pack.samples_per_shard != 0)
    words.push_back(fmt::format("--samples-per-shard={}", pack.samples_per_shard));
  if (pack.threads != 0) words.push_back(fmt::format("--threads={}", pack.threads));
  if (arguments.lines) words.emplace_back("--lines");
  if (pack.json) words.emplace_back("--json");
  words.insert(words.end(), {"--", source, pack.destination});
  return words;
}

}  // namespace

void add_import_options(CLI::App& command, ImportArguments& arguments) {
  command.add_option("--columns", arguments.columns, "Parquet, Arrow: a,b: these columns alone.");
  command.add_option("--where", arguments.where,
                     "Parquet, Arrow: rows to take: \"label < 10 and split == 'train'\".");
  command.add_option("--key", arguments.key,
                     "Parquet, Arrow, HDF5: the column with the keys (default: the row's number).");
  command.add_option("--schema", arguments.schema,
                     "Petastorm: a JSON file that says which columns are arrays or images.");
  command.add_option("--datasets", arguments.datasets, "HDF5: a,b: these datasets alone.");
  command.add_option("--field", arguments.field, "LMDB: what the values are (bin): jpg.");
  command.add_option("--tokenizer", arguments.tokenizer,
                     "Text, JSONL: a tokenizer.json; makes tokens.");
  command.add_option("--eod", arguments.eod, "With it: the token that ends a document.");
  command.add_flag("--lines", arguments.lines, "With it: each line of text is a document.");
  command.add_option("--text-field", arguments.text_field,
                     "With it: the field of JSONL that has the text (text).");
}

Result<std::string> python_kind_of(const std::string& source, const std::string& kind,
                                   const ImportArguments& arguments) {
  if (!arguments.tokenizer.empty()) {
    if (kind.empty() || kind == "text" || kind == "jsonl")
      return kind.empty() ? std::string("text") : kind;
    return Status(Code::invalid_argument, "--tokenizer is for text and jsonl, not for " + kind);
  }
  if (kind == "text")
    return Status(Code::invalid_argument,
                  "text is packed through a tokenizer: --tokenizer tokenizer.json --eod ID");
  std::string found = kind.empty() ? import_kind_of(source) : kind;
  if (std::find(kPythonKinds.begin(), kPythonKinds.end(), found) != kPythonKinds.end())
    return found;
  std::string given = arguments.lines ? "--lines" : "";
  for (const auto& [name, value] : named(arguments))
    if (!value.empty()) given = name;
  if (!given.empty())
    return Status(Code::invalid_argument,
                  fmt::format("{} has no meaning here: {} is packed as {}", given, source,
                              kind.empty() ? "files, JSONL or arrays" : kind));
  return std::string();
}

Status hand_over_to_python(const std::string& source, const std::string& kind,
                           const PackArguments& pack, const ImportArguments& arguments) {
  const std::string program = interpreter();
  std::vector<std::string> words = command_line(source, kind, pack, arguments);
  words.insert(words.begin(), program);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // main() blocks them for its own thread, and a new program inherits that.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::execvp(program.c_str(), pointers.data());
  const Status status = Status::from_errno(errno, "run", program);
  return status.with_context(
      kind +
      " is packed by Stoker's Python package, and there is no Python; name one by "
      "STOKER_PYTHON");
}

}  // namespace stoker::cli
