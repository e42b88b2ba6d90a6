/// \file
/// What the subcommands of `stoker checkpoint` share: how a checkpoint is named, found and printed.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/restore/reader.h"
#include "cli/command.h"
#include "formats/json/json.h"

namespace stoker::cli {

void add_checkpoint_ls_command(Command& checkpoint, Context& context);
void add_checkpoint_show_command(Command& checkpoint, Context& context);
void add_checkpoint_verify_command(Command& checkpoint, Context& context);
void add_checkpoint_diff_command(Command& checkpoint, Context& context);
void add_checkpoint_export_command(Command& checkpoint, Context& context);
void add_checkpoint_import_command(Command& checkpoint, Context& context);
void add_checkpoint_prune_command(Command& checkpoint, Context& context);
void add_checkpoint_note_commands(Command& checkpoint, Context& context);

/// DIR, which every one of them takes first.
void add_directory_argument(Command& command, std::string& directory);
/// What `name` is in the help of the commands that take a checkpoint.
inline constexpr const char* kStepHelp =
    "Step number, `latest`, or the name of a directory in DIR.";

/// Opens a directory of checkpoints, which must be there.
Result<CheckpointDirectory> open_directory(const std::string& directory);

/// `not_found`: why there are none in `directory`.
Status no_checkpoints(const std::string& directory);

/// The checkpoint that was typed: "1000", "latest", "step-000000001000" or
/// "step-000000001000.superseded-41". `invalid_argument` for what is none of these, `not_found` if
/// it is not there. `latest` is the newest by generation, wherever the link leads, but for a
/// damaged one that it leads to.
Result<CatalogStep> find_step(const Catalog& catalog, const std::string& directory,
                              const std::string& typed);
/// The same, and lists the directory first.
Result<CatalogStep> find_step(const std::string& directory, const std::string& typed);

/// Opens one for commands that read a piece at a time; Ctrl-C ends them at the next.
Result<CheckpointReader> open_step(const std::string& directory, const std::string& typed,
                                   const Context& context);

/// The note of a checkpoint; an empty one if nobody wrote any.
CheckpointNote note_of(const AllNotes& notes, const CatalogStep& step);

/// "[2, 4]"
std::string shape_text(const std::vector<std::uint64_t>& shape);
/// "grad_norm=1 loss=2.31"
std::string values_text(const std::map<std::string, double>& values);
/// JSON has no NaN and no infinities: they are the strings "nan", "inf" and "-inf".
Json number_json(double value);
Json values_json(const std::map<std::string, double>& values);

}  // namespace stoker::cli
