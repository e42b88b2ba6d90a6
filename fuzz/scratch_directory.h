#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace stoker {

/// A directory in memory for a fuzz target that uses files; the destructor removes it. Use one for
/// the whole process: creating one for each input would cost more than the input itself.
///
/// Thread safety: none.
class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string name = "/dev/shm/stoker-fuzz-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const noexcept { return path_; }

  void make(const std::string& name) const {
    std::filesystem::create_directories(path_ + "/" + name);
  }
  /// Removes the files in a directory, but not its subdirectories.
  void empty(const std::string& name) const {
    const std::string path = path_ + "/" + name;
    DIR* const directory = ::opendir(path.c_str());
    if (directory == nullptr) std::abort();
    while (const dirent* entry = ::readdir(directory))
      ::unlinkat(::dirfd(directory), entry->d_name, 0);
    ::closedir(directory);
  }
  /// Uses system calls, because streams cost more than the file itself.
  void write(const std::string& name, std::string_view text) const {
    const int fd =
        ::open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0 || ::write(fd, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      std::abort();
    ::close(fd);
  }

 private:
  std::string path_;
};

}  // namespace stoker
