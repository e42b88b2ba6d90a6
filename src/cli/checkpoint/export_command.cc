#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/inspect/export.h"
#include "checkpoint/inspect/export_choice.h"
#include "cli/checkpoint/arguments.h"
#include "cli/line_text.h"
#include "cli/option_value.h"
#include "cli/python_program.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "formats/json/strict_json.h"
#include "io/files/text_file.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(OUT.safetensors is one file. Its checksum is written to OUT.safetensors.sha256; check it with
`sha256sum -c` in the directory of the file. Slices of a tensor are joined, and every byte is checked.
An existing file is never replaced. A tensor that several trees share is exported by every --only
that matches one of its names. Names of tensors that differ between ranks begin with the rank:
--rank exports one rank's, with the tensors that all ranks share, under the names in its trees.

With --hf, OUT is a directory in the layout of Hugging Face models, with checksums in SHA256SUMS. It
contains the weights only: the tree `model`, under the module's own names. The command prints what it
leaves out. Use --only to select other tensors and --strip to shorten names. A checkpoint contains no
config.json and no tokenizer: give the former with --config, and add the latter.

With --peft, OUT is a directory for PeftModel.from_pretrained(): the LoRA adapter of a PeftModel that
was saved as the tree `model`, under PEFT's names, and the adapter_config.json that --config names.

OUT.pt is written by torch.save() in Python, and can be read with torch.load(weights_only=True). It
contains the state as it was saved, or, with --only or --strip, a dict of tensors by name. The whole
state is held in memory. STOKER_PYTHON names the Python to use; the default is the one beside this
command, or the one on the PATH.

With --dcp, OUT is a directory that torch.distributed.checkpoint loads, by any number of ranks, with
checksums in SHA256SUMS. Python writes it in the same way.

Examples:
  stoker checkpoint export run/checkpoints 1000 model.safetensors \
    --only model. --strip model.
  stoker checkpoint export run/checkpoints latest my-model --hf \
    --config base/config.json --max-shard-size 2GB
  stoker checkpoint export run/checkpoints latest my-adapter --peft \
    --config adapter_config.json)";

constexpr std::size_t kConfigBytesMax = std::size_t{16} << 20;

constexpr std::size_t kSameNamed = 8;

struct Arguments {
  std::string directory;
  std::string step;
  std::string out;
  bool hf = false;
  bool dcp = false;
  bool peft = false;
  bool json = false;
  std::string adapter;
  std::string config;
  std::string shard_size;

  bool is_directory() const { return hf || peft; }
  std::optional<std::uint64_t> rank;
  ExportOptions options;
};

bool is_for_torch(const Arguments& arguments) {
  const bool is_pickle = arguments.out.ends_with(".pt") || arguments.out.ends_with(".pth");
  return arguments.dcp || (!arguments.is_directory() && is_pickle);
}

Status check_out(const Arguments& arguments) {
  const bool is_file = arguments.out.ends_with(".safetensors") || is_for_torch(arguments);
  if (arguments.is_directory() || is_file) return {};
  return Status(
      Code::invalid_argument,
      fmt::format(
          "{}: OUT ends with .safetensors or .pt, or is a directory with --hf, --peft or --dcp",
          arguments.out));
}

/// Reads the file of --config, which the export contains.
Result<TextFile> read_config(const Arguments& arguments) {
  TextFile file{.name = arguments.peft ? "adapter_config.json" : "config.json", .text = {}};
  STOKER_ASSIGN(file.text, read_text_file(posix_file_ops(), arguments.config, kConfigBytesMax));
  if (!arguments.peft) return file;
  STOKER_ASSIGN(const Json config, parse_strict_json(file.text, arguments.config));
  STOKER_ASSIGN(const JsonView kind, JsonView(config, arguments.config).at("peft_type"));
  STOKER_ASSIGN(const std::string name, kind.text());
  if (name != "LORA")
    return Status(Code::invalid_argument,
                  fmt::format("{}: peft_type is {}, and --peft writes LoRA adapters only",
                              arguments.config, quote_for_message(name)));
  return file;
}

Status add_directory_options(const Arguments& arguments, ExportOptions& options) {
  if (!arguments.shard_size.empty()) {
    if (!arguments.hf) return Status(Code::invalid_argument, "--max-shard-size is for --hf");
    STOKER_ASSIGN(options.file_bytes_max,
                  parse_size_option("--max-shard-size", arguments.shard_size));
  }
  if (arguments.peft && arguments.config.empty())
    return Status(Code::invalid_argument,
                  "--peft: give --config FILE, the adapter_config.json that "
                  "model.peft_config[\"default\"].save_pretrained(DIR) writes");
  if (!arguments.adapter.empty() && !arguments.peft)
    return Status(Code::invalid_argument, "--adapter is for --peft");
  if (arguments.peft) options.adapter = arguments.adapter.empty() ? "default" : arguments.adapter;
  if (arguments.config.empty()) return {};
  if (!arguments.is_directory())
    return Status(Code::invalid_argument, "--config is for --hf and --peft");
  STOKER_ASSIGN(TextFile file, read_config(arguments));
  options.files.push_back(std::move(file));
  return {};
}

/// Passes the checkpoint's own directory to Python, so that it is found by the same rules
/// everywhere.
Status hand_over(const Arguments& arguments, const std::string& checkpoint) {
  std::vector<std::string> words = {"export"};
  for (const std::string& prefix : arguments.options.only) words.push_back("--only=" + prefix);
  for (const std::string& prefix : arguments.options.strip) words.push_back("--strip=" + prefix);
  if (arguments.rank) words.push_back(fmt::format("--rank={}", *arguments.rank));
  if (arguments.dcp) words.emplace_back("--dcp");
  if (arguments.json) words.emplace_back("--json");
  words.insert(words.end(), {"--", checkpoint, arguments.out});
  return become_python({.module = "stoker._commands.torch",
                        .command = "stoker checkpoint export",
                        .work = "files of torch are written"},
                       std::move(words));
}

std::string render_text(const ExportReport& report, const std::vector<LeftOutTree>& left_out) {
  std::string text =
      fmt::format("{} in {}, {}: {}\nsums: {}\n", counted(report.tensor_count, "tensor"),
                  counted(report.files.size(), "file"), format_bytes(report.size_bytes),
                  report.files.empty() ? "" : report.files.front(), report.sums);
  for (const LeftOutTree& tree : left_out)
    text += fmt::format("left out: {} ({}, {})\n", printable(tree.name),
                        counted(tree.tensor_count, "tensor"), format_bytes(tree.size_bytes));
  for (std::size_t i = 0; i < report.same.size() && i < kSameNamed; ++i)
    text += fmt::format("left out: {}, the same as {}\n", printable(report.same[i].name),
                        printable(report.same[i].exported));
  if (report.same.size() > kSameNamed)
    text += fmt::format("left out: {} more names of tensors that are exported under another\n",
                        report.same.size() - kSameNamed);
  return text;
}

std::string render_json(const ExportReport& report, const std::vector<LeftOutTree>& left_out) {
  Json trees = Json::array();
  for (const LeftOutTree& tree : left_out)
    trees.push_back(
        {{"tree", tree.name}, {"tensors", tree.tensor_count}, {"size_bytes", tree.size_bytes}});
  Json same = Json::object();
  for (const SameTensor& one : report.same) same[one.name] = one.exported;
  return to_line({{"files", Json::array_of(report.files)},
                  {"sums", Json::array_of(report.sums)},
                  {"tensors", report.tensor_count},
                  {"size_bytes", report.size_bytes},
                  {"left_out", std::move(trees)},
                  {"same", std::move(same)}}) +
         "\n";
}

Status run(const Arguments& arguments, Context& context) {
  STOKER_TRY(check_out(arguments));
  STOKER_ASSIGN(const CheckpointReader reader,
                open_step(arguments.directory, arguments.step, context));
  ExportOptions options = arguments.options;
  STOKER_TRY(add_directory_options(arguments, options));
  const std::uint64_t world_size = reader.manifest().world_size;
  if (arguments.rank && *arguments.rank >= world_size)
    return Status(Code::invalid_argument,
                  fmt::format("--rank {}: this checkpoint is of {}, and the first is 0",
                              *arguments.rank, counted(world_size, "rank")));
  if (arguments.rank) options.rank = static_cast<std::uint32_t>(*arguments.rank);
  const std::vector<NamedTensor> named = name_tensors(reader, options.rank);
  STOKER_TRY(check_only(named, options.only));
  STOKER_TRY(check_complete(named, options.only, world_size));
  if (is_for_torch(arguments)) return hand_over(arguments, reader.directory());
  std::vector<LeftOutTree> left_out;
  if (arguments.is_directory() && options.only.empty()) {
    STOKER_ASSIGN(ModelChoice choice, choose_model(reader, options.rank));
    options.only = std::move(choice.only);
    if (options.strip.empty()) options.strip = std::move(choice.strip);
    left_out = std::move(choice.left_out);
  }
  WorkProgress progress(context, "exporting", "bytes");
  if (!arguments.json)
    options.progress = [&](std::uint64_t done, std::uint64_t count) {
      progress.show({.done = done, .count = count, .bytes = done});
    };
  const Result<ExportReport> exported =
      arguments.is_directory()
          ? export_directory(reader, posix_file_ops(), arguments.out, options)
          : export_safetensors(reader, posix_file_ops(), arguments.out, options);
  progress.clear();
  if (!exported.ok()) return exported.status();
  return write_out(context, arguments.json ? render_json(*exported, left_out)
                                           : render_text(*exported, left_out));
}

}  // namespace

void add_checkpoint_export_command(Command& checkpoint, Context& context) {
  Command* const command = checkpoint.add_subcommand(
      "export", "Write a checkpoint's tensors as safetensors, or for torch.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->directory);
  command->add_option("STEP", arguments->step, kStepHelp)->required();
  command
      ->add_option("OUT", arguments->out,
                   "OUT.safetensors, OUT.pt, or a new directory with --hf, --peft or --dcp.")
      ->as_path()
      ->required();
  const Option* const hf = command->add_flag(
      "--hf", arguments->hf,
      "Write the tree `model` as a directory in the layout of Hugging Face models.");
  const Option* const peft =
      command
          ->add_flag("--peft", arguments->peft,
                     "Write the LoRA adapter in the tree `model` as a directory for PEFT.")
          ->excludes(hf);
  command
      ->add_flag("--dcp", arguments->dcp,
                 "Write a directory that torch.distributed.checkpoint loads.")
      ->excludes(hf)
      ->excludes(peft);
  command->add_option("--adapter", arguments->adapter,
                      "With --peft: name of the adapter in the model (default: default).");
  command
      ->add_option(
          "--config", arguments->config,
          "With --hf: the config.json to put into OUT. With --peft: the adapter_config.json.")
      ->as_path();
  const Option* const shard_size =
      command->add_option("--max-shard-size", arguments->shard_size,
                          "With --hf: largest size of a file (default: 5GiB).");
  command->add_old_name("--shard-size", shard_size, arguments->shard_size);
  command
      ->add_option("--only", arguments->options.only,
                   "Export only tensors whose names begin with this; may be repeated.")
      ->one_value_each();
  command
      ->add_option("--strip", arguments->options.strip,
                   "Remove this from the beginning of names; may be repeated.")
      ->one_value_each();
  command->add_option("--rank", arguments->rank,
                      "Export the tensors of this rank: its own, and those that all ranks share.");
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
