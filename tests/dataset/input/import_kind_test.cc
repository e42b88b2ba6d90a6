#include "dataset/input/import_kind.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

std::string write(const TempDir& dir, const std::string& name, const std::string& bytes = "") {
  const std::string path = dir.file(name);
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
  return path;
}

TEST(ImportKindTest, files_are_known_by_their_first_bytes_then_by_their_names) {
  const TempDir dir;
  EXPECT_EQ(import_kind_of(write(dir, "a", "PAR1 and more")), "parquet");
  EXPECT_EQ(import_kind_of(write(dir, "b", std::string("ARROW1\0\0", 8))), "arrow");
  EXPECT_EQ(import_kind_of(write(dir, "c.bin", "\x89HDF\r\n\x1a\n")), "hdf5");
  EXPECT_EQ(import_kind_of(write(dir, "d.arrow", "a stream has no magic")), "arrow");
  EXPECT_EQ(import_kind_of(write(dir, "data.mdb")), "lmdb");
  EXPECT_EQ(import_kind_of(write(dir, "e.parquet", "cut")), "parquet");
  EXPECT_EQ(import_kind_of(write(dir, "f.jsonl", "{}")), "");
  EXPECT_EQ(import_kind_of(write(dir, "g.npy", "\x93NUMPY")), "");
  EXPECT_EQ(import_kind_of(dir.file("nowhere")), "");
}

TEST(ImportKindTest, folders_are_known_by_what_lies_in_them) {
  const TempDir dir;
  write(dir, "rows/part-0.parquet");
  write(dir, "rows/_SUCCESS");
  write(dir, "hive/year=2024/month=1/part.parquet");
  write(dir, "split/data-00000.arrow");
  write(dir, "split/state.json");
  write(dir, "dict/dataset_dict.json");
  write(dir, "db/data.mdb");
  write(dir, "images/cat/1.jpg");
  write(dir, "images/dog/rows.parquet");
  write(dir, "hidden/.x.parquet");
  EXPECT_EQ(import_kind_of(dir.file("rows")), "parquet");
  EXPECT_EQ(import_kind_of(dir.file("hive")), "parquet");
  EXPECT_EQ(import_kind_of(dir.file("split")), "arrow");
  EXPECT_EQ(import_kind_of(dir.file("dict")), "arrow");
  EXPECT_EQ(import_kind_of(dir.file("db")), "lmdb");
  EXPECT_EQ(import_kind_of(dir.file("images")), "") << "the first file decides";
  EXPECT_EQ(import_kind_of(dir.file("hidden")), "");
}

TEST(ImportKindTest, petastorm_is_known_by_the_name_of_its_schema) {
  const TempDir dir;
  write(dir, "peta/part-0.parquet");
  write(dir, "peta/_common_metadata", "PAR1...dataset-toolkit.unischema.v1...");
  EXPECT_EQ(import_kind_of(dir.file("peta")), "petastorm");
  write(dir, "spark/part-0.parquet");
  write(dir, "spark/_common_metadata", "PAR1...");
  EXPECT_EQ(import_kind_of(dir.file("spark")), "parquet");
}

}  // namespace
}  // namespace stoker::testing
