#pragma once

#include <string>
#include <vector>

#include "stoker/status.h"

namespace stoker::cli {

/// What Stoker's Python package does for the command line.
struct PythonProgram {
  std::string module;   ///< Its main() is called: "stoker._commands.pack".
  std::string command;  ///< Begins messages: "stoker pack".
  std::string work;     ///< In messages: "parquet is packed".
};

/// Replaces this process by the Python interpreter: $STOKER_PYTHON, else one beside this command,
/// else `python3`. Returns only if there is none.
Status become_python(const PythonProgram& program, std::vector<std::string> words);

}  // namespace stoker::cli
