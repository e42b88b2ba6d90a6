/// \file
/// Shared by the subcommands of `stoker checkpoint`: how a checkpoint is named, found and printed.
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

/// Adds DIR, the first argument of every subcommand.
void add_directory_argument(Command& command, std::string& directory);
/// Help text of the argument that names a checkpoint.
inline constexpr const char* kStepHelp =
    "Step number, `latest`, or the name of a directory in DIR.";

/// Opens a directory of checkpoints, which must exist.
Result<CheckpointDirectory> open_directory(const std::string& directory);

/// Returns `not_found` with the reason why `directory` has no checkpoints.
Status no_checkpoints(const std::string& directory);

/// Finds the checkpoint that was typed: "1000", "latest", "step-000000001000" or
/// "step-000000001000.superseded-41". `invalid_argument` for any other text, `not_found` if it does
/// not exist. `latest` is the newest by generation, wherever the link points, unless the link
/// points to a damaged checkpoint: then that one.
Result<CatalogStep> find_step(const Catalog& catalog, const std::string& directory,
                              const std::string& typed);
/// Lists the directory first.
Result<CatalogStep> find_step(const std::string& directory, const std::string& typed);

/// Opens a checkpoint for commands that read piece by piece; Ctrl-C stops them before the next
/// read.
Result<CheckpointReader> open_step(const std::string& directory, const std::string& typed,
                                   const Context& context);

/// Returns the note of a checkpoint; an empty one if there is none. Omits values that were written
/// about another checkpoint of the same number.
CheckpointNote note_of(const AllNotes& notes, const CatalogStep& step);

/// "[2, 4]"
std::string shape_text(const std::vector<std::uint64_t>& shape);
/// "grad_norm=1 loss=2.31"
std::string values_text(const std::map<std::string, double>& values);
/// JSON has no NaN and no infinities: they become the strings "nan", "inf" and "-inf".
Json number_json(double value);
Json values_json(const std::map<std::string, double>& values);

}  // namespace stoker::cli
