#include <fmt/format.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "cli/checkpoint/arguments.h"
#include "cli/checkpoint/import.h"
#include "cli/line_text.h"
#include "cli/python_program.h"
#include "cli/result_writer.h"
#include "cli/work_progress.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(The file becomes a committed checkpoint, and `latest` points to it. Its tensors become a dict by
name, which a program restores with restore(NAME=model). In the checkpoint their names begin with
"NAME."; `export --strip NAME.` restores the original names. DIR is created if it does not exist. An
import that fails or is interrupted leaves nothing behind.

Files of torch (.pt, .pth, .ckpt, .bin) and distributed checkpoints (directories) are read by torch in
Python, with weights_only=True: only tensors and plain values are read, and no code in the file runs.
The whole file is held in memory. A dict that contains dicts becomes one tree per key, such as model
and optimizer; a key that is also a setting of save() or restore() gets a "_" appended. With --as,
everything becomes one tree. STOKER_PYTHON names the Python to use; the default is the one beside this
command, or the one on the PATH.

Examples:
  stoker checkpoint import run/checkpoints base.safetensors --step 0 --as model
  stoker checkpoint import run/checkpoints old-run.pt --step 40000)";

struct Arguments {
  ImportRequest request;
  bool json = false;
};

Status hand_over(const Arguments& arguments) {
  const ImportRequest& request = arguments.request;
  std::vector<std::string> words = {"import", fmt::format("--step={}", request.step)};
  if (request.tree) words.push_back("--as=" + *request.tree);
  if (arguments.json) words.emplace_back("--json");
  words.insert(words.end(), {"--", request.directory, request.file});
  return become_python({.module = "stoker._commands.torch",
                        .command = "stoker checkpoint import",
                        .work = "files of torch are read"},
                       std::move(words));
}

Status run(const Arguments& arguments, Context& context) {
  STOKER_TRY(check_import(arguments.request));
  STOKER_ASSIGN(const bool is_torch, is_read_by_torch(arguments.request.file));
  if (is_torch) return hand_over(arguments);
  STOKER_ASSIGN(const ImportReport report, import_safetensors(arguments.request, context));
  if (arguments.json)
    return write_out(context, to_line({{"name", report.name},
                                       {"step", arguments.request.step},
                                       {"generation", report.generation},
                                       {"tensors", report.tensor_count},
                                       {"size_bytes", report.size_bytes}}) +
                                  "\n");
  return write_out(context, fmt::format("{}/{}: {}, {}, generation {}\n`latest` points to it now\n",
                                        arguments.request.directory, report.name,
                                        counted(report.tensor_count, "tensor"),
                                        format_bytes(report.size_bytes), report.generation));
}

}  // namespace

void add_checkpoint_import_command(Command& checkpoint, Context& context) {
  Command* const command = checkpoint.add_subcommand(
      "import", "Make a checkpoint from a safetensors file or a torch file.");
  const auto arguments = std::make_shared<Arguments>();
  add_directory_argument(*command, arguments->request.directory);
  command
      ->add_option("FILE", arguments->request.file,
                   "FILE.safetensors, FILE.pt, or the directory of a torch distributed checkpoint.")
      ->as_path()
      ->required();
  command->add_option("--step", arguments->request.step, "Step number to save it as.")
      ->required()
      ->check(count_from(0));
  command->add_option(
      "--as", arguments->request.tree,
      "Name of the tree to save it as (default: state; for files of torch, the trees "
      "in them).");
  command->add_flag("--json", arguments->json, "Print one JSON object.");
  command->footer(kFooter);
  command->on_chosen([arguments, &context] { return run(*arguments, context); });
}

}  // namespace stoker::cli
