#include "cli/checkpoint/arguments.h"
#include "cli/registry.h"

namespace stoker::cli {
namespace {

constexpr const char* kFooter =
    R"(Every command takes the directory of the checkpoints first. A checkpoint is given as a step number,
as `latest`, or as the name of a directory such as step-000000001000.superseded-41.

Examples:
  stoker checkpoint ls run/checkpoints
  stoker checkpoint verify run/checkpoints --all
  stoker checkpoint export run/checkpoints latest model.safetensors \
    --only model. --strip model.
  stoker checkpoint prune run/checkpoints --keep-last 3 --dry-run

Exit status: 0 done, 1 failed or damage found, 2 misused, 130 interrupted.)";

}  // namespace

void add_checkpoint_command(Command& stoker, Context& context) {
  Command* const command = stoker.add_subcommand(
      "checkpoint", "List, check, compare, import, export, annotate, pin and prune checkpoints.");
  command->require_subcommand();
  command->footer(kFooter);
  add_checkpoint_ls_command(*command, context);
  add_checkpoint_show_command(*command, context);
  add_checkpoint_verify_command(*command, context);
  add_checkpoint_diff_command(*command, context);
  add_checkpoint_export_command(*command, context);
  add_checkpoint_import_command(*command, context);
  add_checkpoint_prune_command(*command, context);
  add_checkpoint_note_commands(*command, context);
}

}  // namespace stoker::cli
