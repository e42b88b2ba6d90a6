#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

namespace stoker {

/// A directory in memory for a fuzz target that goes through files; removed at the end. One for the
/// whole process: making one for each input would cost more than the input does.
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
  void empty(const std::string& name) const {
    for (const auto& entry : std::filesystem::directory_iterator(path_ + "/" + name))
      std::filesystem::remove_all(entry.path());
  }
  void write(const std::string& name, std::string_view text) const {
    std::ofstream file(path_ + "/" + name, std::ios::binary | std::ios::trunc);
    file.write(text.data(), static_cast<std::streamsize>(text.size()));
    if (!file.flush()) std::abort();
  }

 private:
  std::string path_;
};

}  // namespace stoker
