/// \file
/// `stoker pack` for what only Python packages read: Parquet, Petastorm, Arrow, HDF5, LMDB, and
/// text through a tokenizer. The command hands over to stoker._commands.pack of the Python package,
/// which packs by the same plan and into the same files.
#pragma once

#include <string>

#include "cli/command.h"
#include "cli/dataset/pack_arguments.h"
#include "stoker/status.h"

namespace stoker::cli {

/// The options of such sources, as they were typed; Python parses them.
struct ImportArguments {
  std::string columns;
  std::string where;
  std::string key;
  std::string json_columns;
  std::string rename;
  std::string field;
  std::string database;
  std::string datasets;
  std::string schema;
  std::string tokenizer;
  std::string eod;
  std::string text_field;
  bool lines = false;
};

void add_import_options(Command& command, ImportArguments& arguments);

/// What Python is to pack `source` as; empty if the native sources do it. `kind` is what the user
/// calls it, or empty. `invalid_argument` if options are given that do not belong to it.
Result<std::string> python_kind_of(const std::string& source, const std::string& kind,
                                   const ImportArguments& arguments);

/// Replaces this process by the Python interpreter (python_program.h). Returns only if there is
/// none.
Status hand_over_to_python(const std::string& source, const std::string& kind,
                           const PackArguments& pack, const ImportArguments& arguments);

}  // namespace stoker::cli
