/// \file
/// What the tests of the public headers share: shards written by hand, and nothing of src/.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stoker/loader.h"

namespace stoker::testing {

/// A directory that is removed at the end.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "stoker-api-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(out.flush()) << path;
}

using Members = std::vector<std::pair<std::string, std::string>>;  // name and bytes

/// A ustar archive.
inline std::string tar_of(const Members& members) {
  std::string out;
  for (const auto& [name, bytes] : members) {
    std::array<char, 512> head{};
    std::snprintf(head.data(), 100, "%s", name.c_str());
    std::snprintf(head.data() + 100, 8, "0000644");
    std::snprintf(head.data() + 108, 8, "0000000");
    std::snprintf(head.data() + 116, 8, "0000000");
    std::snprintf(head.data() + 124, 12, "%011zo", bytes.size());
    std::snprintf(head.data() + 136, 12, "00000000000");
    head[156] = '0';
    std::snprintf(head.data() + 257, 6, "ustar");
    head[263] = head[264] = '0';
    unsigned sum = 8 * ' ';
    for (std::size_t i = 0; i < head.size(); ++i)
      if (i < 148 || i >= 156) sum += static_cast<unsigned char>(head[i]);
    std::snprintf(head.data() + 148, 8, "%06o", sum);
    head[155] = ' ';
    out.append(head.data(), head.size());
    out += bytes;
    out.append((512 - bytes.size() % 512) % 512, '\0');
  }
  return out + std::string(1024, '\0');
}

/// An .npy file of a C-ordered array.
inline std::string npy_of(const std::string& descr, const std::string& shape,
                          std::string_view elements) {
  std::string head = "{'descr': '" + descr + "', 'fortran_order': False, 'shape': " + shape + ", }";
  head.append(63 - (10 + head.size()) % 64, ' ');
  head += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(head.size() & 0xff);
  out += static_cast<char>(head.size() >> 8);
  return out + head + std::string(elements);
}

template <typename T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

inline std::string key_of(std::size_t i) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "s%04zu", i);
  return text.data();
}

/// Samples 0 to `count`, `per_shard` in each tar: an image of 10 to 40 bytes, and its number.
inline void write_tars(const Folder& folder, std::size_t count, std::size_t per_shard = 30) {
  for (std::size_t first = 0; first < count; first += per_shard) {
    Members members;
    for (std::size_t i = first; i < std::min(count, first + per_shard); ++i) {
      members.emplace_back(key_of(i) + ".jpg", std::string(10 + i % 31, static_cast<char>(i)));
      members.emplace_back(key_of(i) + ".cls", std::to_string(i));
    }
    write_file(folder.file("shard-" + std::to_string(100 + first / per_shard) + ".tar"),
               tar_of(members));
  }
}

/// A value, or a failed test with the message. (EXPECT, because it is used in expressions.)
template <typename T>
T must(Result<T> result) {
  EXPECT_TRUE(result.ok()) << result.status().message();
  if (!result.ok()) std::abort();
  return *std::move(result);
}

/// The columns that most tests read.
inline std::vector<FieldSpec> image_fields() {
  return {{"jpg", FieldKind::bytes}, {"cls", FieldKind::int64}};
}

inline std::vector<std::int64_t> numbers_of(const Batch& batch, std::string_view column = "cls") {
  const auto values = must(batch.values<std::int64_t>(column));
  return {values.begin(), values.end()};
}

/// The batches of an iteration, or at most `count`, as the values of "cls".
inline std::vector<std::vector<std::int64_t>> labels_of(Loader& loader,
                                                        std::size_t count = SIZE_MAX) {
  std::vector<std::vector<std::int64_t>> out;
  while (out.size() < count) {
    const std::optional<Batch> batch = must(loader.next());
    if (!batch) break;
    out.push_back(numbers_of(*batch));
  }
  return out;
}

}  // namespace stoker::testing
