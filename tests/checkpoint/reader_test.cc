#include "checkpoint/reader.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <new>

#include "checkpoint/step_builder.h"
#include "support/faulty_engine.h"
#include "support/faulty_file_ops.h"
#include "support/model_disk.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using Shape = std::vector<std::uint64_t>;

CheckpointReader open_step(FileOps& ops, const std::string& path,
                           const CheckpointReader::Options& options = plain_reader()) {
  Result<CheckpointReader> reader = CheckpointReader::open(ops, path, options);
  EXPECT_TRUE(reader.ok()) << reader.status().message();
  return *std::move(reader);
}

std::vector<std::byte> read_whole(const CheckpointReader& reader, const std::string& name) {
  std::vector<std::byte> bytes(reader.find(name)->size_bytes);
  must(reader.read({.name = name, .data = bytes.data()}));
  return bytes;
}

TEST(CheckpointReaderTest, reads_back_every_type_and_shape) {
  const TempDir dir;
  std::vector<BuiltTensor> tensors;
  for (unsigned i = 0; i <= static_cast<unsigned>(TensorType::u64); ++i) {
    const auto type = static_cast<TensorType>(i);
    const std::string name(tensor_type_name(type));
    tensors.push_back(random_tensor(name + ".matrix", type, {3, 8}, 10 + i));
    tensors.push_back(random_tensor(name + ".empty", type, {0, 4}, 1));
    if (tensor_type_bits(type) % 8 == 0)
      tensors.push_back(random_tensor(name + ".scalar", type, {}, 100 + i));
  }
  write_built_step(posix_file_ops(), dir.path(), {.step = 7, .ranks = {tensors}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(7)));
  EXPECT_EQ(reader.tensors().size(), tensors.size());
  for (const BuiltTensor& tensor : tensors) {
    ASSERT_NE(reader.find(tensor.name), nullptr) << tensor.name;
    EXPECT_EQ(reader.find(tensor.name)->shape, tensor.shape);
    EXPECT_EQ(read_whole(reader, tensor.name), tensor.bytes) << tensor.name;
  }
}

/// A tensor, and the grid of slices in which it is saved.
class SlicedTensor {
 public:
  explicit SlicedTensor(std::mt19937& random) {
    const std::size_t dimensions = 1 + random() % 4;
    for (std::size_t d = 0; d < dimensions; ++d) {
      shape.push_back(1 + random() % 7);
      cuts.push_back({0, shape[d]});
      while (random() % 2 == 0) cuts[d].push_back(random() % (shape[d] + 1));
      std::ranges::sort(cuts[d]);
      cuts[d].erase(std::unique(cuts[d].begin(), cuts[d].end()), cuts[d].end());
    }
    whole = random_bytes(2 * count(), random());
  }

  std::size_t count() const {
    std::size_t product = 1;
    for (const std::uint64_t size : shape) product *= size;
    return product;
  }
  const std::byte* at(const Shape& index) const {
    std::size_t flat = 0;
    for (std::size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + index[d];
    return whole.data() + 2 * flat;
  }
  /// Every slice of the grid.
  std::vector<BuiltTensor> slices() const;

  Shape shape;
  std::vector<Shape> cuts;
  std::vector<std::byte> whole;
};

/// Calls `visit` with each index of a box, last dimension fastest.
template <typename Visit>
void for_each_index(const Shape& shape, Visit visit) {
  Shape index(shape.size());
  if (std::ranges::count(shape, 0) > 0) return;
  for (;;) {
    visit(index);
    std::size_t d = shape.size();
    while (d > 0 && ++index[d - 1] == shape[d - 1]) index[--d] = 0;
    if (d == 0) return;
  }
}

std::vector<BuiltTensor> SlicedTensor::slices() const {
  std::vector<BuiltTensor> all;
  Shape grid;
  for (const Shape& cut : cuts) grid.push_back(cut.size() - 1);
  for_each_index(grid, [&](const Shape& cell) {
    BuiltTensor slice{.name = "t", .type = TensorType::i16, .shape = {}, .global_shape = shape};
    for (std::size_t d = 0; d < cell.size(); ++d) {
      slice.offsets.push_back(cuts[d][cell[d]]);
      slice.shape.push_back(cuts[d][cell[d] + 1] - cuts[d][cell[d]]);
    }
    for_each_index(slice.shape, [&](Shape index) {
      for (std::size_t d = 0; d < index.size(); ++d) index[d] += slice.offsets[d];
      slice.bytes.insert(slice.bytes.end(), at(index), at(index) + 2);
    });
    all.push_back(std::move(slice));
  });
  return all;
}

/// Memory of a box in any order of dimensions, each forwards or backwards, with gaps.
struct StridedMemory {
  StridedMemory(const Shape& shape, std::mt19937& random) : strides(shape.size()) {
    std::vector<std::size_t> order(shape.size());
    for (std::size_t d = 0; d < order.size(); ++d) order[d] = d;
    std::ranges::shuffle(order, random);
    std::int64_t step = 2;
    std::int64_t first = 0;
    for (const std::size_t d : order) {
      step += 2 * static_cast<std::int64_t>(random() % 2);
      strides[d] = random() % 3 == 0 ? -step : step;
      if (strides[d] < 0) first += step * static_cast<std::int64_t>(shape[d] - 1);
      step *= static_cast<std::int64_t>(shape[d]);
    }
    bytes.assign(static_cast<std::size_t>(step) + 2, std::byte{0xEE});
    data = bytes.data() + first;
  }
  std::byte* at(const Shape& index) const {
    std::byte* place = data;
    for (std::size_t d = 0; d < index.size(); ++d)
      place += static_cast<std::int64_t>(index[d]) * strides[d];
    return place;
  }

  std::vector<std::int64_t> strides;
  std::vector<std::byte> bytes;
  std::byte* data = nullptr;
};

TEST(CheckpointReaderTest, any_box_of_any_slicing_is_what_a_plain_copy_gives) {
  std::mt19937 random(20261115);
  for (int round = 0; round < 60; ++round) {
    ModelDisk disk;
    const SlicedTensor tensor(random);
    std::vector<std::vector<BuiltTensor>> ranks;
    for (BuiltTensor& slice : tensor.slices()) ranks.push_back({std::move(slice)});
    write_built_step(disk, "", {.step = 1, .ranks = ranks});
    CheckpointReader::Options options = plain_reader();
    options.engine = [&] { return disk.make_engine(); };
    const CheckpointReader reader = open_step(disk, "/" + step_name(1), options);
    EXPECT_EQ(read_whole(reader, "t"), tensor.whole);
    for (int box = 0; box < 20; ++box) {
      Shape offsets;
      Shape shape;
      for (const std::uint64_t size : tensor.shape) {
        offsets.push_back(random() % size);
        shape.push_back(1 + random() % (size - offsets.back()));
      }
      StridedMemory memory(shape, random);
      const StridedMemory before = memory;
      std::size_t wrong_count = 0;
      must(reader.read({.name = "t",
                        .offsets = offsets,
                        .shape = shape,
                        .data = memory.data,
                        .strides_bytes = memory.strides}));
      for_each_index(shape, [&](const Shape& index) {
        Shape global = index;
        for (std::size_t d = 0; d < index.size(); ++d) global[d] += offsets[d];
        wrong_count += std::memcmp(memory.at(index), tensor.at(global), 2) != 0;
        std::memset(memory.at(index), 0xEE, 2);
      });
      ASSERT_EQ(wrong_count, 0U) << "round " << round << ", box " << box;
      ASSERT_EQ(memory.bytes, before.bytes) << "bytes beside the box were written";
    }
  }
}

TEST(CheckpointReaderTest, elements_below_a_byte_are_read_where_bytes_begin) {
  const TempDir dir;
  BuiltTensor top = random_tensor("t", TensorType::f4, {2, 6}, 1);
  BuiltTensor bottom = random_tensor("t", TensorType::f4, {1, 6}, 2);
  top.global_shape = bottom.global_shape = {3, 6};
  top.offsets = {0, 0};
  bottom.offsets = {2, 0};
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {{top}, {bottom}}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<std::byte> expected = top.bytes;
  expected.insert(expected.end(), bottom.bytes.begin(), bottom.bytes.end());
  EXPECT_EQ(read_whole(reader, "t"), expected);
  std::vector<std::byte> column(3);
  must(reader.read({.name = "t", .offsets = {0, 2}, .shape = {3, 2}, .data = column.data()}));
  EXPECT_EQ(column, (std::vector{expected[1], expected[4], expected[7]}));
  EXPECT_EQ(
      reader.read({.name = "t", .offsets = {0, 1}, .shape = {3, 2}, .data = column.data()}).code(),
      Code::unsupported);
}

/// Several chunks: borders inside tensors, tensors inside chunks.
std::vector<BuiltTensor> large_tensors() {
  return {random_tensor("a", TensorType::f32, {1600, 1024}, 1),
          random_tensor("b", TensorType::f32, {3}, 2),
          random_tensor("c", TensorType::f32, {1024, 2049}, 3),
          random_tensor("d", TensorType::bf16, {100, 7}, 4)};
}

TEST(CheckpointReaderTest, restores_large_tensors_on_every_path) {
  const TempDir dir;
  const std::vector<BuiltTensor> tensors = large_tensors();
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {tensors}});
  for (const CachePolicy policy : {CachePolicy::automatic, CachePolicy::buffered,
                                   CachePolicy::direct, CachePolicy::drop_behind}) {
    for (const std::size_t misaligned : {0U, 16U}) {
      CheckpointReader::Options options{.file = {.policy = policy}, .thread_count = 3, .depth = 2};
      const Result<CheckpointReader> reader =
          CheckpointReader::open(posix_file_ops(), dir.file(step_name(1)), options);
      if (policy == CachePolicy::direct && reader.status().code() == Code::unsupported) continue;
      ASSERT_TRUE(reader.ok()) << reader.status().message();
      std::vector<ReadTarget> targets;
      std::vector<std::byte*> memories;
      for (const BuiltTensor& tensor : tensors) {
        const std::size_t size = (tensor.bytes.size() + misaligned + 4095) / 4096 * 4096;
        memories.push_back(static_cast<std::byte*>(::aligned_alloc(4096, size)));
        targets.push_back({.name = tensor.name, .data = memories.back() + misaligned});
      }
      std::atomic<std::uint64_t> read_bytes = 0;
      must(reader->read_all(targets, {.read_bytes = &read_bytes}));
      EXPECT_EQ(read_bytes, reader->manifest().files[0].size_bytes) << "each chunk is read once";
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        EXPECT_EQ(std::memcmp(targets[i].data, tensors[i].bytes.data(), tensors[i].bytes.size()), 0)
            << cache_policy_name(policy) << " " << tensors[i].name;
        ::free(memories[i]);
      }
    }
  }
}

TEST(CheckpointReaderTest, a_chunk_is_read_whole_once_and_in_part_afterwards) {
  const TempDir dir;
  const std::vector<BuiltTensor> tensors = large_tensors();
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {tensors}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<float> row(2);
  const ReadTarget target{.name = "c",
                          .offsets = {1000, 2046},
                          .shape = {1, 2},
                          .data = reinterpret_cast<std::byte*>(row.data())};
  for (const std::uint64_t expected : {kCheckpointChunkBytes, std::uint64_t{8}}) {
    std::atomic<std::uint64_t> read_bytes = 0;
    must(reader.read_all(std::span(&target, 1), {.read_bytes = &read_bytes}));
    EXPECT_LE(read_bytes, expected);
    EXPECT_GE(read_bytes, 8U);
    EXPECT_EQ(std::memcmp(row.data(), tensors[2].bytes.data() + 4 * (1000 * 2049 + 2046), 8), 0);
  }
}

TEST(CheckpointReaderTest, stays_readable_when_the_step_is_removed) {
  const TempDir dir;
  const BuiltStep step = small_step(3, 1);
  write_built_step(posix_file_ops(), dir.path(), step);
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(3)));
  std::filesystem::remove_all(dir.file(step_name(3)));
  EXPECT_EQ(read_whole(reader, "model.weight"), step.ranks[0][0].bytes);
}

TEST(CheckpointReaderTest, follows_latest_once) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  must(posix_file_ops().symlink(step_name(3), dir.file("latest")));
  EXPECT_EQ(open_step(posix_file_ops(), dir.file("latest/")).directory(), dir.file(step_name(3)));
}

/// Another checkpoint takes the place of the one that is being opened, after its manifest was read.
class ReplacingFileOps final : public FaultyFileOps {
 public:
  ReplacingFileOps(FileOps& target, std::string directory)
      : FaultyFileOps(target, kNever, 0), directory_(std::move(directory)) {}
  Result<FileKind> kind_of(const std::string& path) override {
    if (path.ends_with(".safetensors") && !std::exchange(is_done_, true)) {
      std::filesystem::rename(directory_ + "/" + step_name(3),
                              directory_ + "/" + superseded_name(3, 1));
      write_built_step(posix_file_ops(), directory_, small_step(3, 2, 77));
    }
    return FaultyFileOps::kind_of(path);
  }

 private:
  const std::string directory_;
  bool is_done_ = false;
};

TEST(CheckpointReaderTest, a_manifest_and_the_files_of_another_are_never_mixed) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  ReplacingFileOps ops(posix_file_ops(), dir.path());
  const CheckpointReader reader = open_step(ops, dir.file(step_name(3)));
  EXPECT_EQ(reader.manifest().generation, 2U);
  EXPECT_EQ(read_whole(reader, "model.weight"), small_step(3, 2, 77).ranks[0][0].bytes);
}

TEST(CheckpointReaderTest, damage_is_named_with_file_offset_and_tensor) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {large_tensors()}});
  const std::string path = dir.file(step_name(1) + "/rank-00000.safetensors");
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(static_cast<std::streamoff>(2 * kCheckpointChunkBytes + 5));
  file.put('!');
  file.close();
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<std::byte> memory(reader.find("c")->size_bytes);
  const Status status = reader.read({.name = "c", .data = memory.data()});
  EXPECT_EQ(status.code(), Code::corrupt);
  for (const char* word : {"rank-00000.safetensors", "offset 8388608", "tensor", "c"})
    EXPECT_NE(status.message().find(word), std::string::npos) << status.message();
  std::vector<std::byte> other(reader.find("a")->size_bytes);
  must(reader.read({.name = "a", .data = other.data()}));  // in chunks that are whole
}

TEST(CheckpointReaderTest, elements_that_no_rank_has_saved_are_refused) {
  const TempDir dir;
  BuiltTensor half = random_tensor("t", TensorType::i16, {2, 3}, 1);
  half.global_shape = {4, 3};
  half.offsets = {2, 0};
  write_built_step(posix_file_ops(), dir.path(), {.step = 1, .ranks = {{half}}});
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(1)));
  std::vector<std::byte> memory(24);
  EXPECT_EQ(reader.read({.name = "t", .data = memory.data()}).code(), Code::corrupt);
  must(reader.read({.name = "t", .offsets = {2, 0}, .shape = {2, 3}, .data = memory.data()}));
  EXPECT_EQ(
      reader.read({.name = "t", .offsets = {3, 0}, .shape = {2, 3}, .data = memory.data()}).code(),
      Code::invalid_argument);
  EXPECT_EQ(reader.read({.name = "u", .data = memory.data()}).code(), Code::not_found);
}

TEST(CheckpointReaderTest, any_single_failure_of_a_call_is_reported) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  int fault_count = 0;
  for (int fail_at = 0;; ++fail_at) {
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Result<CheckpointReader> reader =
        CheckpointReader::open(ops, dir.file(step_name(3)), plain_reader());
    if (!ops.fired()) break;
    ++fault_count;
    EXPECT_EQ(reader.status().code(), Code::io_error) << ops.failed_op();
  }
  EXPECT_GE(fault_count, 5);
  for (int fail_at = 0; fail_at < 1; ++fail_at) {
    CheckpointReader::Options options = plain_reader();
    options.engine = [&]() -> Result<std::unique_ptr<Engine>> {
      STOKER_ASSIGN(std::unique_ptr<Engine> engine, make_sync_engine({}));
      return std::unique_ptr<Engine>(new FaultyEngine(std::move(engine), fail_at, -EIO));
    };
    const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(3)), options);
    std::vector<std::byte> memory(60);
    const Status status = reader.read({.name = "model.weight", .data = memory.data()});
    EXPECT_EQ(status.os_error(), EIO);
    EXPECT_NE(status.message().find("model.weight"), std::string::npos) << status.message();
  }
}

TEST(CheckpointReaderTest, a_stop_ends_a_read) {
  const TempDir dir;
  write_built_step(posix_file_ops(), dir.path(), small_step(3, 1));
  const CheckpointReader reader = open_step(posix_file_ops(), dir.file(step_name(3)));
  std::stop_source source;
  source.request_stop();
  std::vector<std::byte> memory(60);
  const ReadTarget target{.name = "model.weight", .data = memory.data()};
  EXPECT_EQ(reader.read_all(std::span(&target, 1), {.stop = source.get_token()}).code(),
            Code::cancelled);
}

}  // namespace
}  // namespace stoker::testing
