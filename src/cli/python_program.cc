#include "cli/python_program.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>

namespace stoker::cli {
namespace {

/// Removes the current directory from the path, so that Python does not import files from there.
constexpr const char* kStart = R"(import sys
sys.path = [place for place in sys.path if place]
try:
    from {} import main
except ImportError as error:
    sys.exit(f"{}: {} by Stoker's Python package, which {{sys.executable}} cannot "
             f"import ({{error}}): run `pip install .` in a checkout of Stoker, or name a Python "
             f"that has the package by STOKER_PYTHON")
sys.exit(main())
)";

std::string interpreter() {
  if (const char* const chosen = std::getenv("STOKER_PYTHON"); chosen != nullptr && *chosen != '\0')
    return chosen;
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  for (const char* name : {"python3", "python"}) {
    const std::filesystem::path beside = self.parent_path() / name;
    std::error_code unknown;
    if (!failed && std::filesystem::is_regular_file(beside, unknown) &&
        ::access(beside.c_str(), X_OK) == 0)
      return beside;
  }
  return "python3";
}

}  // namespace

Status become_python(const PythonProgram& program, std::vector<std::string> words) {
  const std::string python = interpreter();
  words.insert(words.begin(),
               {python, "-c",
                fmt::format(fmt::runtime(kStart), program.module, program.command, program.work)});
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  // main() blocks these signals in its thread, and an exec'ed program inherits the mask.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGHUP);
  ::pthread_sigmask(SIG_UNBLOCK, &signals, nullptr);
  ::execvp(python.c_str(), pointers.data());
  const Status status = Status::from_errno(errno, "run", python);
  return status.with_context(program.work +
                             " by Stoker's Python package, and there is no Python; name one by "
                             "STOKER_PYTHON");
}

}  // namespace stoker::cli
