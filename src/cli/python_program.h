#pragma once

#include <string>
#include <vector>

#include "stoker/status.h"

namespace stoker::cli {

/// A part of the command line that Stoker's Python package implements.
struct PythonProgram {
  std::string module;   ///< The module whose main() is called: "stoker._commands.pack".
  std::string command;  ///< Prefix of messages: "stoker pack".
  std::string work;     ///< For messages: "parquet is packed".
};

/// Replaces this process with the Python interpreter: $STOKER_PYTHON, or one beside this command,
/// or `python3`. Returns only if it cannot be run.
Status become_python(const PythonProgram& program, std::vector<std::string> words);

}  // namespace stoker::cli
