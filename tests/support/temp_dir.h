#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

namespace stoker::testing {

/// A directory of the test's own, removed with all it holds: tests run in parallel.
class TempDir {
 public:
  explicit TempDir(const std::string& parent = ::testing::TempDir()) {
    std::string name = parent + "/stoker_test_XXXXXX";
    EXPECT_NE(::mkdtemp(name.data()), nullptr) << "in " << parent;
    path_ = name;
  }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }
  std::string file(const std::string& name) const { return (path_ / name).string(); }

  std::ptrdiff_t entry_count() const {
    return std::distance(std::filesystem::directory_iterator(path_), {});
  }

 private:
  std::filesystem::path path_;
};

/// Memory where there is some, for a TempDir: thousands of fsyncs prove nothing more on a disk.
inline std::string fast_parent() {
  std::error_code ignored;
  return std::filesystem::is_directory("/dev/shm", ignored) ? "/dev/shm" : ::testing::TempDir();
}

inline std::string contents_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;  // not by iterators: without optimization each byte takes ten calls
  text << in.rdbuf();
  return std::move(text).str();
}

}  // namespace stoker::testing
