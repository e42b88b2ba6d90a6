#include "gpu/cuda_device.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "gpu/fake_driver.h"

namespace stoker::testing {
namespace {

std::vector<std::byte> bytes_of(const char* text) {
  const auto* const first = reinterpret_cast<const std::byte*>(text);
  return {first, first + std::strlen(text)};
}

TEST(CudaDriverTest, a_machine_without_the_driver_is_told_why) {
  const Result<const CudaDriver*> found = CudaDriver::find();
  if (found.ok()) GTEST_SKIP() << "this machine has a GPU";
  EXPECT_EQ(found.status().code(), Code::unsupported);
  EXPECT_TRUE(found.status().message().starts_with("no CUDA: ")) << found.status().message();
  EXPECT_GT(found.status().message().size(), std::string_view("no CUDA: ").size());
}

TEST(CudaDriverTest, errors_have_the_name_of_the_call_and_of_the_error) {
  const FakeDriver fake;
  const Status failed = fake.table().check(719, "cuMemAlloc");
  EXPECT_EQ(failed.message(), "cuMemAlloc: CUDA_ERROR_LAUNCH_FAILED (719)");
  EXPECT_EQ(failed.code(), Code::io_error);
  EXPECT_NE(failed.os_error(), EIO);  // which a restore would take for damage
  EXPECT_EQ(fake.table().check(kCudaOutOfMemory, "cuMemAlloc").code(), Code::unavailable);
  EXPECT_TRUE(fake.table().check(kCudaSuccess, "cuMemAlloc").ok());
}

TEST(CudaDeviceTest, its_context_is_retained_as_long_as_it_or_a_stream_of_it_lives) {
  const FakeDriver fake;
  auto device = CudaDevice::retain(fake.table(), 1);
  ASSERT_TRUE(device.ok());
  EXPECT_EQ(fake.retained_count(), 1);
  auto stream = OwnedCudaStream::make(*device);
  ASSERT_TRUE(stream.ok());
  *device = nullptr;
  EXPECT_EQ(fake.retained_count(), 1);
  *stream = nullptr;
  EXPECT_EQ(fake.retained_count(), 0);
}

TEST(CudaDeviceTest, a_device_that_does_not_exist_is_named) {
  const FakeDriver fake(1);
  const auto device = CudaDevice::retain(fake.table(), 1);
  ASSERT_FALSE(device.ok());
  EXPECT_TRUE(device.status().message().starts_with("CUDA device 1: cuDeviceGet"))
      << device.status().message();
}

TEST(CudaDeviceTest, a_scope_gives_the_thread_back_as_it_was) {
  const FakeDriver fake;
  const auto device = CudaDevice::retain(fake.table(), 0);
  ASSERT_TRUE(device.ok());
  CudaContext left = nullptr;
  {
    const CudaScope scope(**device);
    ASSERT_TRUE(scope.status().ok());
    int mode = 0;
    fake.table().thread_exchange_capture_mode(&mode);
    EXPECT_EQ(mode, kCudaCaptureModeRelaxed);
    fake.table().thread_exchange_capture_mode(&mode);
  }
  int mode = 1;
  fake.table().thread_exchange_capture_mode(&mode);
  EXPECT_EQ(mode, 0);
  fake.table().thread_exchange_capture_mode(&mode);
  EXPECT_NE(fake.table().ctx_pop_current(&left), kCudaSuccess);  // there is none
}

TEST(CudaEventTest, a_stream_waits_for_the_work_before_the_event_and_no_later_work) {
  FakeDriver fake;
  const auto device = CudaDevice::retain(fake.table(), 0);
  ASSERT_TRUE(device.ok());
  const auto ours = OwnedCudaStream::make(*device);
  const auto event = OwnedCudaEvent::make(*device);
  const auto copied = OwnedCudaEvent::make(*device);
  ASSERT_TRUE(ours.ok() && event.ok() && copied.ok());
  const CudaStream callers = fake.make_stream(0);
  const CudaPointer memory = fake.upload(bytes_of("old"));
  std::array<std::byte, 3> out{};
  const CudaScope scope(**device);
  fake.hold(0, callers);
  fake.enqueue_write(0, callers, memory, bytes_of("new"));
  ASSERT_TRUE((*event)->record(callers).ok());
  ASSERT_TRUE((*event)->delay((*ours)->get()).ok());
  ASSERT_EQ(fake.table().mem_host_register(out.data(), out.size(), kCudaRegisterPortable), 0);
  ASSERT_EQ(fake.table().memcpy_dtoh_async(out.data(), memory, out.size(), (*ours)->get()), 0);
  ASSERT_TRUE((*copied)->record((*ours)->get()).ok());
  ASSERT_TRUE((*copied)->delay(callers).ok());
  fake.enqueue_write(0, callers, memory, bytes_of("bad"));
  EXPECT_NE(fake.table().event_query((*copied)->get()), kCudaSuccess);
  fake.release();
  ASSERT_TRUE((*copied)->synchronize().ok());
  EXPECT_EQ(std::memcmp(out.data(), "new", out.size()), 0);
}

TEST(CudaEventTest, an_error_of_lost_work_is_seen_where_it_is_waited_for) {
  FakeDriver fake;
  const auto device = CudaDevice::retain(fake.table(), 0);
  ASSERT_TRUE(device.ok());
  const auto ours = OwnedCudaStream::make(*device);
  const auto event = OwnedCudaEvent::make(*device);
  ASSERT_TRUE(ours.ok() && event.ok());
  const CudaPointer memory = fake.upload(bytes_of("old"));
  const CudaScope scope(**device);
  fake.fail_call(0, FakeDriver::Fault::later);
  ASSERT_EQ(fake.table().memcpy_dtod_async(memory, memory, 3, (*ours)->get()), kCudaSuccess);
  EXPECT_FALSE((*event)->record((*ours)->get()).ok() && (*event)->synchronize().ok());
}

TEST(CudaDeviceTest, no_context_is_created_on_a_device_that_the_process_does_not_use) {
  FakeDriver fake;
  fake.set_in_use(false);
  EXPECT_EQ(CudaDevice::retain(fake.table(), 1).status().code(), Code::invalid_argument);
  EXPECT_EQ(fake.count_of("primary_ctx_retain"), 0U);
  const auto created = CudaDevice::create(fake.table(), 1);
  ASSERT_TRUE(created.ok());
  EXPECT_TRUE(CudaDevice::retain(fake.table(), 1).ok());
}

}  // namespace
}  // namespace stoker::testing
