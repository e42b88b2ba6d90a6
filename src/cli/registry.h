#pragma once

#include "cli/command.h"

namespace stoker::cli {

/// Each adds one subcommand, in <name>_command.cc or <name>/command.cc.
void add_bench_command(Command& stoker, Context& context);
void add_cache_command(Command& stoker, Context& context);
void add_cat_command(Command& stoker, Context& context);
void add_checkpoint_command(Command& stoker, Context& context);
void add_completion_command(Command& stoker, Context& context);
void add_convert_command(Command& stoker, Context& context);
void add_cp_command(Command& stoker, Context& context);
void add_doctor_command(Command& stoker, Context& context);
void add_help_command(Command& stoker, Context& context);
void add_index_command(Command& stoker, Context& context);
void add_ls_command(Command& stoker, Context& context);
void add_pack_command(Command& stoker, Context& context);
void add_plan_command(Command& stoker, Context& context);
void add_stage_command(Command& stoker, Context& context);
void add_stats_command(Command& stoker, Context& context);
void add_stream_command(Command& stoker, Context& context);
void add_tune_command(Command& stoker, Context& context);
void add_verify_command(Command& stoker, Context& context);

}  // namespace stoker::cli
