// Saves of tensors on devices: through a fake driver, whose streams are threads.
#include "checkpoint/device/device_copier.h"

#include <gtest/gtest.h>

#include <thread>

#include "checkpoint/device/device_saves.h"

namespace stoker::testing {
namespace {

using DeviceCopierTest = DeviceSaves;

TEST_F(DeviceCopierTest, device_tensors_are_saved_through_memory_that_is_registered_once) {
  const std::size_t count = 3 * kMiB;  // more than two chunks
  {
    const auto saver = make_saver(options());
    EXPECT_EQ(fake_.retained_count(), 0);  // nothing on a device yet
    for (const std::uint64_t step : {1U, 2U, 3U})
      ASSERT_TRUE(
          saver->save({.step = step, .tensors = {on_device("w", iota(count, float(step)))}}).ok());
    ASSERT_TRUE(saver->close().ok());
  }
  for (const std::uint64_t step : {1U, 2U, 3U}) expect_saved(step, "w", iota(count, float(step)));
  EXPECT_EQ(fake_.registration_count(), 1U);
  EXPECT_EQ(fake_.unregistered_copies(), 0U);
  EXPECT_EQ(fake_.registered_count(), 0U);
  EXPECT_EQ(fake_.retained_count(), 0);
  EXPECT_EQ(fake_.allocated_bytes(), 0U);
}

TEST_F(DeviceCopierTest, host_tensors_alone_use_no_device) {
  const auto saver = make_saver(options());
  const OwnedTensor host = counted("w", 1000, 5);
  ASSERT_TRUE(saver->save(request_of(1, {host})).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", host.values);
  EXPECT_TRUE(fake_.calls().empty());
}

TEST_F(DeviceCopierTest, tensors_of_two_devices_and_the_host_pass_through_a_ring_of_two_chunks) {
  SaverOptions small = options();
  small.memory_bytes = 1;
  const auto saver = make_saver(std::move(small));
  const std::vector<float> a = iota(3 * kMiB, 1);
  const std::vector<float> b = iota(2 * kMiB + 7, 2);
  const OwnedTensor host = counted("c", 5 * kMiB + 3, 3);
  ASSERT_TRUE(
      saver->save({.step = 1, .tensors = {on_device("a", a, 0), on_device("b", b, 1), host.view()}})
          .ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "a", a);
  expect_saved(1, "b", b);
  expect_saved(1, "c", host.values);
}

// Two allocations may lie side by side, and no copy may span both.
TEST_F(DeviceCopierTest, adjacent_tensors_are_copied_by_themselves) {
  SaveTensor first = on_device("a", iota(2048, 1));
  first.data = reinterpret_cast<const std::byte*>(
      fake_.upload_adjacent(raw(iota(2048, 1)), raw(iota(2048, 2049))));
  SaveTensor second = first;
  second.name = "b";
  second.data += 2048 * sizeof(float);
  const auto saver = make_saver(options());
  ASSERT_TRUE(saver->save({.step = 1, .tensors = {first, second}}).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "a", iota(2048, 1));
  expect_saved(1, "b", iota(2048, 2049));
  EXPECT_EQ(fake_.count_of("memcpy_dtoh_async"), 2U);
}

TEST_F(DeviceCopierTest, many_small_tensors_are_gathered_on_the_device) {
  const auto saver = make_saver(options());
  SaveRequest request{.step = 1, .tensors = {}};
  for (int i = 0; i < 1000; ++i)
    request.tensors.push_back(on_device("t" + std::to_string(1000 + i), iota(1021, float(i))));
  ASSERT_TRUE(saver->save(request).ok());
  ASSERT_TRUE(saver->close().ok());
  for (const int i : {0, 1, 500, 999})
    expect_saved(1, "t" + std::to_string(1000 + i), iota(1021, float(i)));
  EXPECT_GE(fake_.count_of("launch_kernel"), 4U);
  EXPECT_LE(fake_.count_of("memcpy_dtoh_async"), 20U);
}

TEST_F(DeviceCopierTest, without_memory_for_the_gather_they_are_copied_one_by_one) {
  fake_.set_memory_left(0);
  std::string reason;
  SaverOptions own = options();
  own.copier =
      make_device_copier({.find_driver = [this] { return Result(&fake_.table()); },
                          .memory = memory_,
                          .gather_failed = [&](const Status& why) { reason = why.message(); }});
  const auto saver = make_saver(std::move(own));
  SaveRequest request{.step = 1, .tensors = {}};
  for (int i = 0; i < 20; ++i)
    request.tensors.push_back(on_device("t" + std::to_string(10 + i), iota(100, float(i))));
  ASSERT_TRUE(saver->save(request).ok());
  ASSERT_TRUE(saver->save({.step = 2, .tensors = {}}).ok());
  EXPECT_EQ(reason, "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY (2)");
  ASSERT_TRUE(saver->close().ok());
  for (const int i : {0, 19}) expect_saved(1, "t" + std::to_string(10 + i), iota(100, float(i)));
  EXPECT_EQ(fake_.count_of("launch_kernel"), 0U);
}

TEST_F(DeviceCopierTest, memory_that_cannot_be_registered_is_used_all_the_same) {
  fake_.refuse_registration(true);
  const auto saver = make_saver(options());
  ASSERT_TRUE(saver->save({.step = 1, .tensors = {on_device("w", iota(1000, 1))}}).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", iota(1000, 1));
  EXPECT_FALSE(memory_->failure().ok());
}

TEST_F(DeviceCopierTest, a_save_reads_after_the_work_of_the_callers_streams) {
  const auto saver = make_saver(options());
  const SaveTensor w = on_device("w", iota(1000, 1));
  const CudaStream current = fake_.make_stream(0);
  const CudaStream side = fake_.make_stream(0);
  SaveRequest request{.step = 1, .tensors = {w}};
  request.devices.streams = {{.device = 0, .handle = current}, {.device = 0, .handle = side}};
  for (const CudaStream stream : {current, side}) fake_.hold(0, stream);
  fake_.enqueue_write(0, current, pointer_of(w), raw(iota(500, 10)));
  fake_.enqueue_write(0, side, pointer_of(w) + 2000, raw(iota(500, 20)));
  {
    const std::jthread saving([&] { EXPECT_TRUE(saver->save(request).ok()); });
    fake_.release();
  }
  ASSERT_TRUE(saver->close().ok());
  std::vector<float> both = iota(500, 10);
  const std::vector<float> second = iota(500, 20);
  both.insert(both.end(), second.begin(), second.end());
  expect_saved(1, "w", both);
}

TEST_F(DeviceCopierTest, pinned_host_memory_is_read_after_the_work_of_the_callers_streams) {
  const auto saver = make_saver(options());
  Result<std::unique_ptr<Arena>> arena = memory_->maker()(4096);
  ASSERT_TRUE(arena.ok());
  const auto device = CudaDevice::retain(fake_.table(), 0);
  ASSERT_TRUE(device.ok());
  memory_->pin((*arena)->bytes(), *device);
  SaveRequest request{.step = 1,
                      .tensors = {{.name = "w", .shape = {10}, .data = (*arena)->bytes().data()}}};
  const CudaStream current = fake_.make_stream(0);
  request.devices.streams = {{.device = 0, .handle = current}};
  fake_.hold(0, current);
  fake_.enqueue_write(0, current, reinterpret_cast<CudaPointer>((*arena)->bytes().data()),
                      raw(iota(10, 7)));
  {
    const std::jthread saving([&] { EXPECT_TRUE(saver->save(request).ok()); });
    fake_.release();
  }
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", iota(10, 7));
}

TEST_F(DeviceCopierTest, a_save_during_a_capture_is_refused_and_spoils_nothing) {
  const auto saver = make_saver(options());
  const CudaStream captured = fake_.make_stream(0);
  SaveRequest request{.step = 1, .tensors = {on_device("w", iota(10, 1))}};
  fake_.set_capturing(captured, true);
  for (const CudaStream stream : {captured, CudaStream()}) {  // and the default stream
    request.devices.streams = {{.device = 0, .handle = stream}};
    const Status refused = saver->save(request).status();
    EXPECT_EQ(refused.code(), Code::invalid_argument);
    EXPECT_NE(refused.message().find("a CUDA graph is being captured on device 0"),
              std::string_view::npos)
        << refused.message();
  }
  // Another stream is not part of the capture.
  const CudaStream other = fake_.make_stream(0);
  request.devices.streams = {{.device = 0, .handle = other}};
  ASSERT_TRUE(saver->save(request).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", iota(10, 1));
}

TEST_F(DeviceCopierTest, strided_tensors_on_a_device_are_refused_by_name) {
  const auto saver = make_saver(options());
  SaveTensor strided = on_device("w", iota(10, 1));
  strided.shape = {5};
  strided.strides_bytes = {8};
  const Status refused = saver->save({.step = 1, .tensors = {strided}}).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("tensor w: it is on a device, and not contiguous"),
            std::string_view::npos);
}

TEST_F(DeviceCopierTest, a_device_that_does_not_exist_fails_the_save) {
  const auto saver = make_saver(options());
  const Status refused =
      saver->save({.step = 1, .tensors = {on_device("w", iota(10, 1), 9)}}).status();
  EXPECT_NE(refused.message().find("CUDA device 9"), std::string_view::npos) << refused.message();
  const OwnedTensor host = counted("h", 10, 2);
  ASSERT_TRUE(saver->save({.step = 2, .tensors = {host.view(), on_device("w", iota(10, 1))}}).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(2, "w", iota(10, 1));
}

TEST_F(DeviceCopierTest, digests_are_those_of_the_bytes) {
  const auto copier = make_device_copier({.find_driver = [this] { return Result(&fake_.table()); },
                                          .memory = memory_,
                                          .thread_count = 2});
  const OwnedTensor host = counted("c", 1000, 3);
  const std::vector<std::vector<float>> values = {iota(5 * kMiB / 4 + 1, 1), iota(3, 2), {}};
  std::vector<SaveTensor> tensors = {on_device("a", values[0], 0), host.view(),
                                     on_device("b", values[1], 1), on_device("n", values[2], 1)};
  ASSERT_TRUE(copier->begin(tensors, {}, Deadline::max()).ok());
  CopyRest late;
  const Result<std::vector<Digest128>> found = copier->digests(tensors, late);
  ASSERT_TRUE(found.ok()) << found.status().message();
  EXPECT_EQ((*found)[0], xxh3_128(std::as_bytes(std::span(values[0]))));
  EXPECT_EQ((*found)[1], xxh3_128(std::as_bytes(std::span(host.values))));
  EXPECT_EQ((*found)[2], xxh3_128(std::as_bytes(std::span(values[1]))));
  EXPECT_EQ((*found)[3], xxh3_128({}));
  EXPECT_FALSE(late);
  EXPECT_EQ(fake_.unregistered_copies(), 0U);
}

}  // namespace
}  // namespace stoker::testing
