#include "cli/dataset/pack_import.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/python_program.h"
#include "dataset/input/import_kind.h"

namespace stoker::cli {
namespace {

std::vector<std::pair<std::string, std::string>> named(const ImportArguments& arguments) {
  return {{"--columns", arguments.columns},   {"--where", arguments.where},
          {"--key", arguments.key},           {"--json-columns", arguments.json_columns},
          {"--rename", arguments.rename},     {"--field", arguments.field},
          {"--database", arguments.database}, {"--datasets", arguments.datasets},
          {"--schema", arguments.schema},     {"--tokenizer", arguments.tokenizer},
          {"--eod", arguments.eod},           {"--text-field", arguments.text_field}};
}

/// Uses `--name=value`, so that no value can be mistaken for an option.
std::vector<std::string> command_line(const std::string& source, const std::string& kind,
                                      const PackArguments& pack, const ImportArguments& arguments) {
  std::vector<std::string> words = {"--from=" + kind, "--format=" + pack.format};
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

void add_import_options(Command& command, ImportArguments& arguments) {
  command.add_option("--columns", arguments.columns,
                     "Parquet, Arrow: columns to pack, comma-separated (default: all).");
  command.add_option("--where", arguments.where,
                     "Parquet, Arrow: rows to pack, such as \"label < 10 and split == 'train'\".");
  command.add_option("--key", arguments.key,
                     "Parquet, Arrow, HDF5: the column with the keys (default: the row's number).");
  command.add_option("--json-columns", arguments.json_columns,
                     "Parquet, Arrow: a,b: store these columns as JSON, whatever their type.");
  command.add_option("--rename", arguments.rename,
                     "Parquet, Arrow, HDF5: OLD=NEW,...: names of fields in the shards.");
  command
      .add_option("--schema", arguments.schema,
                  "Petastorm: JSON file that describes which columns are arrays or images.")
      ->as_path();
  command.add_option("--datasets", arguments.datasets,
                     "HDF5: datasets to pack, comma-separated (default: all).");
  command.add_option("--field", arguments.field,
                     "LMDB: name of the field for the values, such as jpg (default: bin).");
  command.add_option("--database", arguments.database, "LMDB: the named database to pack.");
  command
      .add_option("--tokenizer", arguments.tokenizer,
                  "Text, JSONL: tokenizer.json to make tokens with.")
      ->as_path();
  command.add_option("--eod", arguments.eod,
                     "With --tokenizer: number of the token that ends a document.");
  command.add_flag("--lines", arguments.lines,
                   "With --tokenizer: treat each line of text as a document.");
  command.add_option("--text-field", arguments.text_field,
                     "With --tokenizer: field of JSONL that has the text (default: text).");
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
  if (std::ranges::find(import_kinds(), found) != import_kinds().end()) return found;
  std::string given = arguments.lines ? "--lines" : "";
  for (const auto& [name, value] : named(arguments))
    if (!value.empty()) given = name;
  std::error_code unknown;
  const bool is_missing = !std::filesystem::exists(source, unknown) && !unknown;
  if (!given.empty() && !is_missing)  // opening it says that it is missing
    return Status(Code::invalid_argument,
                  fmt::format("{} has no meaning here: {} is packed as {}", given, source,
                              kind.empty() ? "files, JSONL or arrays" : kind));
  return std::string();
}

Status hand_over_to_python(const std::string& source, const std::string& kind,
                           const PackArguments& pack, const ImportArguments& arguments) {
  return become_python(
      {.module = "stoker._commands.pack", .command = "stoker pack", .work = kind + " is packed"},
      command_line(source, kind, pack, arguments));
}

}  // namespace stoker::cli
