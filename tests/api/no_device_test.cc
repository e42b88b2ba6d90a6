#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "stoker/checkpoint.h"
#include "stoker/device.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::TempDir;

TEST(NoDeviceTest, a_view_has_the_address_and_size_that_it_was_given) {
  const TensorView view = device_tensor(TensorType::bf16, {3, 4}, 2, 0x7f00'0000'1000);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(view.memory.data()), 0x7f00'0000'1000U);
  EXPECT_EQ(view.memory.size(), 24U);
  EXPECT_EQ(view.device, 2);
}

/// With a driver of the tests: device_test.cc. With a GPU: examples/cpp/device.cc, by `make gpu`.
TEST(NoDeviceTest, without_a_driver_everything_says_why) {
  const Status status = check_devices();
  if (status.ok()) GTEST_SKIP() << "this machine has a CUDA driver";
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_FALSE(status.message().empty());
  EXPECT_EQ(make_snapshot_memory(1 << 20).status().code(), Code::unsupported);
  EXPECT_EQ(DeviceFeed::open({}).status().code(), Code::unsupported);

  const TempDir dir;
  const auto saver = Checkpointer::open({.directory = dir.file("run")});
  ASSERT_TRUE(saver.ok());
  const TensorView there = device_tensor(TensorType::f32, {4}, 0, 0x1000);
  const Result<PendingSave> pending = (*saver)->save(1, {{"w", there}});
  EXPECT_EQ((pending.ok() ? pending->wait() : pending.status()).code(), Code::unsupported);

  std::vector<float> here(4, 1);
  const Result<PendingSave> saved = (*saver)->save(2, {{"w", tensor(here)}});
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  ASSERT_TRUE(saved->wait().ok());
  Tree trees = {{"w", there}};
  EXPECT_EQ((*saver)->restore(trees).status().code(), Code::unsupported);
}

}  // namespace
}  // namespace stoker
