/// \file
/// `stoker pack` for sources that only Python packages read: Parquet, Petastorm, Arrow, HDF5, LMDB,
/// and text through a tokenizer. The command runs stoker._commands.pack of the Python package,
/// which packs by the same plan into the same files.
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

/// Returns the kind as which Python packs `source`; empty if a native source does. `kind` is the
/// one the user stated, or empty. `invalid_argument` for options that do not apply to it.
Result<std::string> python_kind_of(const std::string& source, const std::string& kind,
                                   const ImportArguments& arguments);

/// Replaces this process with the Python interpreter (python_program.h). Returns only if that
/// fails.
Status hand_over_to_python(const std::string& source, const std::string& kind,
                           const PackArguments& pack, const ImportArguments& arguments);

}  // namespace stoker::cli
