/// Safetensors files of other programs, opened by Checkpoint.
#include "stoker/safetensors.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "stoker/checkpoint.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::TempDir;

class SafetensorsFilesTest : public ::testing::Test {
 protected:
  /// Writes a file with one float32 tensor for each name: first, first + 1, ...
  std::string write(const std::string& file, const std::vector<std::string>& names,
                    float first = 0) {
    std::vector<SafetensorsEntry> entries;
    std::vector<float> values(names.size() * 4);
    std::iota(values.begin(), values.end(), first);
    for (const std::string& name : names)
      entries.push_back({.name = name, .type = TensorType::f32, .shape = {2, 2}});
    const Result<std::string> header = format_safetensors(entries, {}, 8);
    EXPECT_TRUE(header.ok()) << header.status().message();
    std::ofstream out(dir_.file(file), std::ios::binary);
    out << *header;
    out.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
    return dir_.file(file);
  }
  void write_index(const std::string& text) {
    std::ofstream(dir_.file("model.safetensors.index.json")) << text;
  }

  TempDir dir_;
};

TEST_F(SafetensorsFilesTest, a_file_is_read_by_name_and_range) {
  const Result<Checkpoint> opened = Checkpoint::open(write("a.safetensors", {"x", "y"}));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  EXPECT_FALSE(opened->has_checksums());
  EXPECT_EQ(opened->step(), std::nullopt);
  EXPECT_EQ(opened->verify().code(), Code::unsupported);
  ASSERT_EQ(opened->tensors().size(), 2U);
  EXPECT_EQ(*opened->read_values<float>("y"), (std::vector<float>{4, 5, 6, 7}));
  std::vector<float> row(2);
  ASSERT_TRUE(opened->read("y", {1, 0}, {1, 2}, std::as_writable_bytes(std::span(row))).ok());
  EXPECT_EQ(row, (std::vector<float>{6, 7}));
  EXPECT_EQ(opened->read("y", {2, 0}, {1, 2}, std::as_writable_bytes(std::span(row))).code(),
            Code::invalid_argument);
}

TEST_F(SafetensorsFilesTest, a_folder_is_one_model) {
  write("model-1.safetensors", {"x"});
  write("model-2.safetensors", {"y", "unused"}, 10);
  const Result<Checkpoint> all = Checkpoint::open(dir_.path());
  ASSERT_TRUE(all.ok()) << all.status().message();
  EXPECT_EQ(all->tensors().size(), 3U);
  write_index(R"({"weight_map": {"x": "model-1.safetensors", "y": "model-2.safetensors"}})");
  const Result<Checkpoint> opened = Checkpoint::open(dir_.path());
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ASSERT_EQ(opened->tensors().size(), 2U);  // those of the index
  EXPECT_EQ(opened->find("unused"), nullptr);
  EXPECT_EQ(*opened->read_values<float>("y"), (std::vector<float>{10, 11, 12, 13}));
}

TEST_F(SafetensorsFilesTest, an_index_that_lies_is_corrupt) {
  write("model-1.safetensors", {"x"});
  for (const std::string text : {"{", "{}", R"({"weight_map": []})", R"({"weight_map": {"x": 1}})",
                                 R"({"weight_map": {"x": "../model-1.safetensors"}})",
                                 R"({"weight_map": {"x": "missing.safetensors"}})",
                                 R"({"weight_map": {"z": "model-1.safetensors"}})"}) {
    write_index(text);
    EXPECT_EQ(Checkpoint::open(dir_.path()).status().code(), Code::corrupt) << text;
  }
}

TEST_F(SafetensorsFilesTest, a_damaged_header_is_corrupt) {
  const std::string path = write("a.safetensors", {"x"});
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  const Status status = Checkpoint::open(path).status();
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find(path), std::string_view::npos) << status.message();
  std::ofstream(dir_.file("b.safetensors")) << "not one";
  EXPECT_EQ(Checkpoint::open(dir_.file("b.safetensors")).status().code(), Code::corrupt);
}

}  // namespace
}  // namespace stoker
