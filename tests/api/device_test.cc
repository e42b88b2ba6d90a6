// The public classes with a CUDA driver of the tests: its devices have memory of the process.
#include "stoker/device.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "api/shards.h"
#include "gpu/fake_libcuda.h"
#include "stoker/checkpoint.h"
#include "stoker/loader.h"
#include "stoker/probe.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::fake_cuda;
using testing::FakeDriver;
using testing::in_child;
using testing::must;
using testing::TempDir;

constexpr std::size_t kCount = std::size_t{1} << 20;

class DeviceTest : public ::testing::Test {
 protected:
  static std::vector<float> counted(float first, std::size_t count = kCount) {
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), first);
    return values;
  }
  static std::vector<std::byte> raw(const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return {bytes.begin(), bytes.end()};
  }
  static TensorView on_device(const std::vector<float>& values, int device = 0) {
    return device_tensor(TensorType::f32, {values.size()}, device,
                         fake_cuda().upload(std::as_bytes(std::span(values))));
  }
  static CudaPointer pointer_of(const TensorView& view) {
    return reinterpret_cast<CudaPointer>(view.memory.data());
  }
  static bool has(CudaPointer at, std::span<const std::byte> bytes) {
    return std::memcmp(FakeDriver::memory_at(at), bytes.data(), bytes.size()) == 0;
  }
  static bool has(const TensorView& view, const std::vector<float>& values) {
    return has(pointer_of(view), std::as_bytes(std::span(values)));
  }
  std::unique_ptr<Checkpointer> open() const {
    return must(Checkpointer::open({.directory = dir_.file("run")}));
  }
  std::vector<float> saved(const char* name) const {
    return must(must(Checkpoint::open(dir_.file("run"))).read_values<float>(name));
  }

  const TempDir dir_;
  const CudaStream stream_ = fake_cuda().make_stream(0);
  const DeviceStream ours_{.device = 0, .handle = stream_};
};

TEST_F(DeviceTest, a_save_reads_after_the_work_of_the_streams_and_before_what_they_get_later) {
  EXPECT_TRUE(check_devices().ok());
  const LendMemory lend = must(make_snapshot_memory(std::uint64_t{1} << 30));
  const auto saver = open();
  const TensorView w = on_device(counted(1));
  const std::vector<float> here = counted(9, 10);
  fake_cuda().hold(0, stream_);
  fake_cuda().enqueue_write(0, stream_, pointer_of(w), raw(counted(2)));
  const PendingSave pending =
      must(saver->save(1, {{"w", w}, {"h", tensor(std::span(here))}},
                       {.devices = {.streams = {ours_}, .snapshot_memory = lend}}));
  EXPECT_TRUE(pending.is_staged());  // save() returned, and the stream has not even begun
  EXPECT_FALSE(pending.is_released());
  EXPECT_GT(fake_cuda().allocated_bytes(), kCount * sizeof(float) - 1);
  fake_cuda().enqueue_write(0, stream_, pointer_of(w), raw(counted(3)));
  fake_cuda().release();
  ASSERT_TRUE(pending.wait().ok());
  EXPECT_TRUE(pending.is_released());
  ASSERT_TRUE(saver->close().ok());
  EXPECT_EQ(saved("w"), counted(2));
  EXPECT_EQ(saved("h"), here);
  EXPECT_TRUE(has(w, counted(3)));
  EXPECT_EQ(fake_cuda().count_of("mem_alloc"), fake_cuda().count_of("mem_free"));
}

TEST_F(DeviceTest, tensors_of_two_devices_are_saved_without_a_snapshot) {
  const auto saver = open();
  const PendingSave pending = must(
      saver->save(1, {{"a", on_device(counted(1), 0)}, {"b", on_device(counted(2, 1000), 1)}}));
  EXPECT_TRUE(pending.is_released());  // they were copied to the host
  ASSERT_TRUE(pending.wait().ok());
  EXPECT_EQ(saved("a"), counted(1));
  EXPECT_EQ(saved("b"), counted(2, 1000));
  EXPECT_EQ(fake_cuda().unregistered_copies(), 0U);
}

TEST_F(DeviceTest, a_restore_writes_after_the_work_of_the_streams) {
  const auto saver = open();
  ASSERT_TRUE(must(saver->save(1, {{"w", on_device(counted(5))}})).wait().ok());
  const TensorView w = on_device(counted(0));
  Tree trees = {{"w", w}};
  fake_cuda().hold(0, stream_);
  fake_cuda().enqueue_write(0, stream_, pointer_of(w), raw(counted(7)));
  std::optional<Restored> restored;
  {
    const std::jthread restoring(
        [&] { restored = must(saver->restore(trees, {.streams = {ours_}})); });
    fake_cuda().release();
  }
  ASSERT_TRUE(restored);
  EXPECT_EQ(restored->step, 1U);
  EXPECT_TRUE(has(w, counted(5)));
}

TEST_F(DeviceTest, a_slice_is_read_to_a_device_and_the_rest_to_the_host) {
  const auto saver = open();
  std::vector<float> values = counted(0);
  ASSERT_TRUE(must(saver->save(1, {{"w", tensor(values, {kCount / 4, 4})}})).wait().ok());
  const Checkpoint checkpoint = must(Checkpoint::open(dir_.file("run")));
  const TensorView there = on_device(counted(0, 12), 1);
  std::vector<float> here(kCount);
  const std::array targets = {
      ReadTarget{
          .name = "w", .offsets = {10, 0}, .shape = {3, 4}, .memory = there.memory, .device = 1},
      ReadTarget{.name = "w", .memory = std::as_writable_bytes(std::span(here))}};
  ASSERT_TRUE(checkpoint.read(targets, {{.device = 1}}).ok());
  EXPECT_TRUE(has(there, counted(40, 12)));
  EXPECT_EQ(here, values);
}

TEST_F(DeviceTest, a_device_that_fails_fails_the_save_and_leaves_no_checkpoint) {
  const auto saver = open();
  fake_cuda().fail_next("memcpy_dtoh_async", FakeDriver::Fault::sticky);
  const Result<PendingSave> pending = saver->save(1, {{"w", on_device(counted(1))}});
  EXPECT_EQ((pending.ok() ? pending->wait() : pending.status()).code(), Code::io_error);
  fake_cuda().heal();
  EXPECT_TRUE(must(saver->steps()).empty());
}

/// Batches of 8 numbers of float32 for each of 10 samples.
class DeviceFeedTest : public DeviceTest {
 protected:
  static constexpr std::size_t kBatchBytes = 10 * 8 * sizeof(float);

  DeviceFeedTest() {
    testing::Members members;
    for (std::size_t i = 0; i < 100; ++i)
      members.emplace_back(
          testing::key_of(i) + ".x.npy",
          testing::npy_of("<f4", "(8,)", testing::bytes_of(counted(static_cast<float>(i), 8))));
    testing::write_file(folder_.file("data.tar"), testing::tar_of(members));
  }
  LoaderOptions options() const {
    return {.data = {folder_.path()},
            .batch_size = 10,
            .seed = 7,
            .fields = {{"x.npy", FieldKind::array}},
            .feed = feed_};
  }
  static CudaPointer room() { return fake_cuda().upload(std::vector<std::byte>(kBatchBytes)); }
  static std::vector<std::byte> bytes_of(const Batch& batch) {
    const std::span<const std::byte> data = batch.find("x.npy")->data;
    return {data.begin(), data.end()};
  }
  Result<BatchCopy> send(Batch& batch, CudaPointer to) const {
    return feed_->send(batch, {{.to = to, .from = batch.find("x.npy")->data}});
  }

  const testing::Folder folder_;
  const DeviceStream copies_{.device = 0, .handle = fake_cuda().make_stream(0)};
  const std::shared_ptr<DeviceFeed> feed_ = must(DeviceFeed::open(copies_));
};

TEST_F(DeviceFeedTest, batches_arrive_before_what_a_stream_gets_after_delay) {
  const std::size_t registrations = fake_cuda().registration_count();
  const std::size_t unregistered = fake_cuda().unregistered_copies();
  Loader loader = must(Loader::open(options()));
  Loader plain = must(Loader::open([&] {
    LoaderOptions without = options();
    without.feed = nullptr;
    return without;
  }()));
  const CudaPointer to = room();
  const CudaPointer seen = room();
  std::uint64_t batches = 0;
  while (std::optional<Batch> batch = must(loader.next())) {
    const std::vector<std::byte> expected = bytes_of(*must(plain.next()));
    ASSERT_TRUE(feed_->follow(ours_).ok());  // which has read the batch before this one
    const BatchCopy copy = must(send(*batch, to));
    EXPECT_FALSE(batch->has_arrays());
    EXPECT_EQ(batch->size(), 10U);
    batch.reset();
    ASSERT_TRUE(copy.delay(ours_).ok());
    {
      CudaContext context = nullptr;  // of a program, which copies on its own stream
      ASSERT_EQ(fake_cuda().table().primary_ctx_retain(&context, 0), kCudaSuccess);
      ASSERT_EQ(fake_cuda().table().ctx_push_current(context), kCudaSuccess);
      ASSERT_EQ(fake_cuda().table().memcpy_dtod_async(seen, to, kBatchBytes, stream_),
                kCudaSuccess);
      ASSERT_EQ(fake_cuda().table().ctx_pop_current(&context), kCudaSuccess);
      ASSERT_EQ(fake_cuda().table().primary_ctx_release(0), kCudaSuccess);
    }
    fake_cuda().finish(0, stream_);
    EXPECT_TRUE(has(seen, expected));
    ++batches;
  }
  EXPECT_EQ(batches, 10U);
  EXPECT_EQ(fake_cuda().registration_count(), registrations + 1);  // the loader's memory, once
  EXPECT_EQ(fake_cuda().unregistered_copies(), unregistered);
  EXPECT_TRUE(feed_->memory_failure().ok());
}

TEST_F(DeviceFeedTest, copies_wait_for_the_stream_that_they_follow) {
  Loader loader = must(Loader::open(options()));
  std::optional<Batch> batch = must(loader.next());
  const std::vector<std::byte> expected = bytes_of(*batch);
  const CudaPointer to = room();
  fake_cuda().hold(0, stream_);
  fake_cuda().enqueue_write(0, stream_, to, std::vector<std::byte>(kBatchBytes, std::byte{0xEE}));
  ASSERT_TRUE(feed_->follow(ours_).ok());
  const BatchCopy copy = must(send(*batch, to));
  fake_cuda().release();
  fake_cuda().finish(0, static_cast<CudaStream>(copies_.handle));
  EXPECT_TRUE(has(to, expected));
  fake_cuda().set_capturing(stream_, true);
  EXPECT_EQ(feed_->follow(ours_).code(), Code::invalid_argument);
  fake_cuda().set_capturing(stream_, false);
}

TEST_F(DeviceFeedTest, host_memory_goes_back_to_the_loader_when_its_copy_has_ended) {
  constexpr std::uint64_t kRounds = 40;
  constexpr std::uint64_t kLargeBytes = std::uint64_t{512} << 10;
  testing::Members members;
  for (std::size_t i = 0; i < 4; ++i)
    members.emplace_back(testing::key_of(i) + ".x.npy",
                         testing::npy_of("|u1", "(524288,)", std::string(kLargeBytes, 'x')));
  testing::write_file(folder_.file("large.tar"), testing::tar_of(members));
  LoaderOptions tight = options();
  tight.data = {folder_.file("large.tar")};
  tight.batch_size = 1;
  tight.epochs = std::nullopt;
  tight.memory_bytes = must(Loader::open(tight)).memory_needed();
  Loader loader = must(Loader::open(tight));
  const CudaPointer to = fake_cuda().upload(std::vector<std::byte>(kLargeBytes));
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    std::optional<Batch> batch = must(loader.next());  // waits for memory
    ASSERT_TRUE(send(*batch, to).ok());
  }
  const std::uint64_t in_memory = loader.stats().memory_bytes / kLargeBytes;
  ASSERT_LT(in_memory, kRounds / 2);
  EXPECT_GE(feed_->stats().copies, kRounds - in_memory);
  EXPECT_GE(feed_->stats().bytes, (kRounds - in_memory) * kLargeBytes);
  EXPECT_GT(feed_->stats().busy.count(), 0);
}

TEST_F(DeviceFeedTest, a_batch_is_sent_once_and_outlives_everything) {
  std::optional<BatchCopy> copy;
  std::vector<std::byte> expected;
  const CudaPointer to = room();
  {
    const std::shared_ptr<DeviceFeed> feed = must(DeviceFeed::open(copies_));
    LoaderOptions wanted = options();
    wanted.feed = feed;
    Loader loader = must(Loader::open(wanted));
    std::optional<Batch> batch = must(loader.next());
    expected = bytes_of(*batch);
    copy = must(feed->send(*batch, {{.to = to, .from = batch->find("x.npy")->data}}));
    EXPECT_EQ(feed->send(*batch, {}).status().code(), Code::invalid_argument);
    Batch none;
    EXPECT_EQ(feed->send(none, {}).status().code(), Code::invalid_argument);
  }
  EXPECT_TRUE(has(to, expected));
  EXPECT_TRUE(copy->delay(ours_).ok());
}

TEST_F(DeviceFeedTest, a_failure_of_the_driver_is_returned_by_every_later_call) {
  Loader loader = must(Loader::open(options()));
  std::optional<Batch> batch = must(loader.next());
  fake_cuda().fail_next("memcpy_htod_async", FakeDriver::Fault::sticky);
  EXPECT_EQ(send(*batch, room()).status().code(), Code::io_error);
  fake_cuda().heal();
  batch = must(loader.next());
  EXPECT_EQ(send(*batch, room()).status().code(), Code::io_error);
  EXPECT_EQ(feed_->follow(ours_).code(), Code::io_error);
}

TEST_F(DeviceFeedTest, a_forked_child_cannot_send) {
  Loader loader = must(Loader::open(options()));
  std::optional<Batch> batch = must(loader.next());
  const CudaPointer to = room();
  EXPECT_EQ(in_child([&] {
              const bool is_refused = send(*batch, to).status().code() == Code::unsupported &&
                                      feed_->follow(ours_).code() == Code::unsupported;
              return is_refused ? 0 : 1;
            }).exit_code,
            0);
}

TEST_F(DeviceTest, a_device_that_nobody_has_used_is_left_alone) {
  fake_cuda().set_in_use(false);
  EXPECT_EQ(DeviceFeed::open(ours_).status().code(), Code::invalid_argument);
  fake_cuda().set_in_use(true);
}

TEST_F(DeviceTest, direct_reads_are_not_real_here_and_the_reason_is_said) {
  const DirectReads reads = must(gpu_direct_reads(dir_.path()));
  EXPECT_FALSE(reads.are_real);
  EXPECT_FALSE(reads.reason.empty());
}

}  // namespace
}  // namespace stoker
