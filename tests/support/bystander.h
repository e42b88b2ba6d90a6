#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "support/temp_dir.h"

namespace stoker::testing {

/// Somebody's directory, to which links are planted: nothing in it may change.
class Bystander {
 public:
  Bystander() { add("file"); }

  std::string path() const { return dir_.path(); }
  std::string file(const std::string& name = "file") const { return dir_.file(name); }
  /// One more of their files.
  void add(const std::string& name) {
    std::filesystem::create_directories(std::filesystem::path(file(name)).parent_path());
    std::ofstream(file(name)) << kText;
    names_.insert(file(name));
  }

  /// Empty, or what is wrong.
  std::string harm() const {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(dir_.path())) {
      if (entry.is_directory()) continue;
      found.insert(entry.path().string());
      if (!names_.contains(entry.path().string())) return entry.path().string() + " is new";
      if (contents_of(entry.path()) != kText) return entry.path().string() + " was changed";
    }
    return found == names_ ? "" : "something is gone";
  }

 private:
  static constexpr const char* kText = "precious";

  TempDir dir_{"/tmp"};
  std::set<std::string> names_;
};

}  // namespace stoker::testing
