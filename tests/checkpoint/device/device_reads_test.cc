// Reads to devices: the bytes, their order, and what is left behind.
#include "checkpoint/device/device_reads.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <random>
#include <stop_token>
#include <thread>

namespace stoker::testing {
namespace {

using DeviceReadsTest = DeviceReadsFixture;

TEST_F(DeviceReadsTest, large_and_small_tensors_arrive_by_way_of_pinned_memory_alone) {
  write(mixed_tensors());
  const std::vector<ReadTarget> targets = all_on_device();
  must(open().read_all(targets, options()));
  expect_all(targets);
  EXPECT_EQ(fake_->unregistered_copies(), 0U);
  EXPECT_LT(fake_->count_of("memcpy_htod_async"), 50U) << "small tensors were copied one by one";
  EXPECT_EQ(fake_->registered_count(), 0U);
  EXPECT_EQ(fake_->allocated_bytes(), 0U);
  EXPECT_EQ(fake_->retained_count(), 0);
}

TEST_F(DeviceReadsTest, one_read_fills_several_devices_and_host_memory) {
  write(mixed_tensors());
  std::vector<std::vector<std::byte>> host(tensors_.size());
  std::vector<ReadTarget> targets;
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (i % 3 != 2) {
      targets.push_back(on_device(tensors_[i], static_cast<int>(i % 3)));
      continue;
    }
    host[i].resize(tensors_[i].bytes.size());
    targets.push_back({.name = tensors_[i].name, .memory = host[i]});
  }
  must(open().read_all(targets, options()));
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    EXPECT_TRUE(i % 3 == 2 ? host[i] == tensors_[i].bytes : is_right(targets[i], tensors_[i])) << i;
}

TEST_F(DeviceReadsTest, any_box_gets_to_any_strides) {
  std::mt19937 random(20261118);
  const std::uint64_t rows = 700;
  const std::uint64_t columns = 4099;  // 5.7 MB: two chunks
  write({random_tensor("t", TensorType::i16, {rows, columns}, 3)});
  const CheckpointReader reader = open();
  for (int round = 0; round < 12; ++round) {
    const std::uint64_t row = random() % rows;
    const std::uint64_t column = random() % columns;
    const std::uint64_t height = 1 + random() % std::min<std::uint64_t>(rows - row, 300);
    const std::uint64_t width =
        1 + random() % std::min<std::uint64_t>(columns - column, round % 2 == 0 ? 5 : 4099);
    const bool is_turned = round % 3 == 1;
    const std::int64_t step = round % 4 == 3 ? 6 : 2;  // gaps between elements
    const std::int64_t far = step * static_cast<std::int64_t>(is_turned ? height : width) + 4;
    const std::size_t size = static_cast<std::size_t>(far) * (is_turned ? width : height);
    const CudaPointer pointer = fake_->upload(std::vector<std::byte>(size, kUntouched));
    ReadTarget target{.name = "t",
                      .offsets = {row, column},
                      .shape = {height, width},
                      .memory = {reinterpret_cast<std::byte*>(pointer), size},
                      .strides_bytes = {far, step},
                      .device = 1};
    if (is_turned) std::swap(target.strides_bytes[0], target.strides_bytes[1]);
    must(reader.read_all(std::span(&target, 1), options()));
    std::vector<std::byte> expected(size, kUntouched);
    for (std::uint64_t i = 0; i < height; ++i)
      for (std::uint64_t j = 0; j < width; ++j)
        std::memcpy(expected.data() + static_cast<std::int64_t>(i) * target.strides_bytes[0] +
                        static_cast<std::int64_t>(j) * target.strides_bytes[1],
                    tensors_[0].bytes.data() + 2 * ((row + i) * columns + column + j), 2);
    ASSERT_TRUE(is_same(contents(target), expected)) << "round " << round;
  }
}

TEST_F(DeviceReadsTest, memory_is_not_read_into_again_before_its_copy_has_ended) {
  write({random_tensor("t", TensorType::u8, {std::size_t{21} << 20}, 4)});  // more than the ring
  const std::vector<ReadTarget> targets = all_on_device();
  const CudaStream callers = fake_->make_stream(0);
  fake_->hold(0, callers);  // and with it the copies
  fake_->enqueue_write(0, callers, pointer_of(targets[0]),
                       std::vector<std::byte>(targets[0].memory.size(), std::byte{0xFF}));
  Status status;
  {
    const std::jthread thread(
        [&] { status = open(/*thread_count=*/1).read_all(targets, options(callers)); });
    while (fake_->count_of("event_synchronize") + fake_->count_of("stream_synchronize") == 0)
      std::this_thread::yield();
    EXPECT_EQ(contents(targets[0])[0], kUntouched) << "the copies did not wait for the caller's";
    fake_->release();
  }
  must(status);
  expect_all(targets);
}

TEST_F(DeviceReadsTest, a_damaged_chunk_is_never_copied) {
  constexpr std::size_t kChunk = kCheckpointChunkBytes;
  write({random_tensor("t", TensorType::u8, {4 * kChunk}, 5)});
  const CheckpointReader reader = open();
  const CheckpointTensor& saved = reader.manifest().tensors.front();
  const std::string path = step_path() + "/" + reader.manifest().files.front().name;
  const std::uint64_t at = 2 * kChunk + 1000;
  {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const int before = file.get();
    file.seekp(static_cast<std::streamoff>(at));
    file.put(static_cast<char>(before ^ 1));
  }
  const std::vector<ReadTarget> targets = all_on_device();
  const Status status = reader.read_all(targets, options());
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find("tensor t"), std::string::npos) << status.message();
  const std::span<const std::byte> chunk =
      contents(targets[0]).subspan(2 * kChunk - saved.begin_bytes, kChunk);
  EXPECT_TRUE(std::ranges::all_of(chunk, [](std::byte b) { return b == kUntouched; }));
}

TEST_F(DeviceReadsTest, a_read_that_is_stopped_leaves_nothing_in_progress) {
  write(mixed_tensors());
  const std::vector<ReadTarget> targets = all_on_device();
  std::stop_source stop;
  stop.request_stop();
  CheckpointReader::ReadOptions stopped = options();
  stopped.stop = stop.get_token();
  EXPECT_EQ(open().read_all(targets, stopped).code(), Code::cancelled);
  EXPECT_EQ(fake_->registered_count(), 0U);
  EXPECT_EQ(fake_->retained_count(), 0);
}

TEST_F(DeviceReadsTest, it_works_without_registration_and_without_memory_on_the_device) {
  write(mixed_tensors());
  fake_->refuse_registration(true);
  fake_->set_memory_left(0);
  const std::vector<ReadTarget> targets = all_on_device();
  must(open().read_all(targets, options()));
  expect_all(targets);
}

TEST_F(DeviceReadsTest, a_read_during_the_capture_of_a_graph_is_refused) {
  write({random_tensor("t", TensorType::u8, {1000}, 6)});
  const std::vector<ReadTarget> targets = all_on_device();
  const CudaStream callers = fake_->make_stream(0);
  fake_->set_capturing(callers, true);
  EXPECT_EQ(open().read_all(targets, options(callers)).code(), Code::invalid_argument);
  fake_->set_capturing(callers, false);
  must(open().read_all(targets, options(callers)));
  expect_all(targets);
}

TEST_F(DeviceReadsTest, a_device_that_does_not_exist_and_a_missing_driver_fail_the_read) {
  write({random_tensor("t", TensorType::u8, {1000}, 7)});
  const std::vector<ReadTarget> targets = {on_device(tensors_[0], 7)};
  EXPECT_EQ(open().read_all(targets, options()).code(), Code::io_error);
  CheckpointReader::ReadOptions none;
  none.devices.find_driver = []() -> Result<const CudaDriver*> {
    return Status(Code::unsupported, "no CUDA");
  };
  EXPECT_EQ(open().read_all(targets, none).code(), Code::unsupported);
}

TEST_F(DeviceReadsTest, a_failed_copy_names_device_and_tensor) {
  write({random_tensor("t", TensorType::u8, {1000}, 8)});
  const std::vector<ReadTarget> targets = all_on_device();
  must(open().read_all(targets, options()));
  fake_->fail_call(SIZE_MAX);
  must(open().read_all(targets, options()));
  const std::vector<std::string> calls = fake_->calls();
  const auto copy = std::ranges::find(calls, "memcpy_htod_async") - calls.begin();
  fake_->fail_call(static_cast<std::size_t>(copy));
  const Status status = open().read_all(targets, options());
  EXPECT_EQ(status.code(), Code::io_error);
  EXPECT_NE(status.message().find("cuda:0"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("tensor t"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("CUDA_ERROR_LAUNCH_FAILED"), std::string::npos);
}

// As for saves: two allocations may lie side by side, and no copy may span both.
TEST_F(DeviceReadsTest, tensors_that_are_adjacent_in_the_file_and_on_the_device_arrive) {
  constexpr std::size_t kBytes = 300'000;
  write({random_tensor("a", TensorType::u8, {kBytes}, 1),
         random_tensor("b", TensorType::u8, {kBytes}, 2)});
  const std::vector<std::byte> room(kBytes, kUntouched);
  std::vector<ReadTarget> targets = all_on_device();
  targets[0].memory = {reinterpret_cast<std::byte*>(fake_->upload_adjacent(room, room)), kBytes};
  targets[1].memory = {targets[0].memory.data() + kBytes, kBytes};
  must(open().read_all(targets, options()));
  expect_all(targets);
}

TEST_F(DeviceReadsTest, pinned_memory_can_be_kept_for_the_next_read) {
  write(mixed_tensors());
  CheckpointReader::ReadOptions kept = options();
  kept.devices.memory = std::make_shared<DeviceReadMemory>(std::uint64_t{1} << 30);
  std::size_t registered = 0;
  for (int round = 0; round < 3; ++round) {
    const std::vector<ReadTarget> targets = all_on_device();
    must(open(/*thread_count=*/1).read_all(targets, kept));
    expect_all(targets);
    if (round == 0) registered = fake_->registration_count();
  }
  EXPECT_EQ(fake_->registration_count(), registered);
  EXPECT_EQ(fake_->registered_count(), registered);
  kept.devices.memory = std::make_shared<DeviceReadMemory>(1000);  // keeps less than it needs
  EXPECT_EQ(fake_->registered_count(), 0U);
  const std::vector<ReadTarget> targets = all_on_device();
  must(open(/*thread_count=*/1).read_all(targets, kept));
  expect_all(targets);
  EXPECT_EQ(fake_->registered_count(), 0U);
}

}  // namespace
}  // namespace stoker::testing
