// Saves that return before the tensors have left the device.
#include <gtest/gtest.h>

#include <thread>

#include "checkpoint/device/device_saves.h"
#include "checkpoint/device/driver_memory.h"
#include "gpu/fake_stream.h"

namespace stoker::testing {
namespace {

class SnapshotTest : public DeviceSaves {
 protected:
  SaveRequest request(std::uint64_t step, std::vector<SaveTensor> tensors, std::size_t most) {
    SaveRequest request{.step = step, .tensors = std::move(tensors)};
    request.devices = with_snapshot(most);
    request.devices.streams = {{.device = 0, .handle = current_}};
    return request;
  }

  const CudaStream current_ = fake_.make_stream(0);
};

TEST_F(SnapshotTest, what_the_stream_gets_after_the_save_does_not_change_it) {
  const auto saver = make_saver(options());
  const SaveTensor w = on_device("w", iota(2 * kMiB, 1));
  fake_.hold(0, current_);
  fake_.enqueue_write(0, current_, pointer_of(w), raw(iota(2 * kMiB, 2)));
  const Result<PendingSave> pending = saver->save(request(1, {w}, 100 * kMiB));
  ASSERT_TRUE(pending.ok());  // it returned, and the stream has not even begun
  EXPECT_TRUE(pending->is_staged());
  EXPECT_FALSE(pending->is_released());
  fake_.enqueue_write(0, current_, pointer_of(w), raw(iota(2 * kMiB, 3)));
  EXPECT_FALSE(lent_.at(0).expired());
  fake_.release();
  ASSERT_TRUE(saver->close().ok());
  EXPECT_TRUE(pending->is_released());
  EXPECT_TRUE(lent_.at(0).expired());
  expect_saved(1, "w", iota(2 * kMiB, 2));
}

TEST_F(SnapshotTest, an_allocator_that_fills_new_memory_on_the_stream_does_not_spoil_it) {
  const auto saver = make_saver(options());
  SaveRequest filled = request(1, {on_device("w", iota(1000, 1))}, kMiB);
  filled.devices.snapshot_memory = [&, lend = filled.devices.snapshot_memory](
                                       std::int32_t device, std::uint64_t size_bytes) {
    DeviceMemory memory = lend(device, size_bytes);
    fake_.hold(0, current_);  // it has not come there when the snapshot is taken
    fake_.enqueue_write(0, current_, reinterpret_cast<CudaPointer>(memory.data),
                        std::vector<std::byte>(size_bytes, std::byte{0xff}));
    return memory;
  };
  const Result<PendingSave> pending = saver->save(filled);
  ASSERT_TRUE(pending.ok());
  fake_.release();
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", iota(1000, 1));
}

TEST_F(SnapshotTest, what_does_not_fit_is_copied_before_the_save_returns) {
  const auto saver = make_saver(options());
  const OwnedTensor host = counted("h", 3000, 4);
  const std::vector<SaveTensor> tensors = {on_device("a", iota(kMiB, 1)),
                                           on_device("b", iota(2 * kMiB, 2)),
                                           on_device("c", iota(kMiB / 2, 3)), host.view()};
  const Result<PendingSave> pending = saver->save(request(1, tensors, 7 * kMiB));
  ASSERT_TRUE(pending.ok());
  EXPECT_EQ(fake_.count_of("memcpy_dtod_async"), 2U);  // a and c
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "a", iota(kMiB, 1));
  expect_saved(1, "b", iota(2 * kMiB, 2));
  expect_saved(1, "c", iota(kMiB / 2, 3));
  expect_saved(1, "h", host.values);
}

TEST_F(SnapshotTest, without_memory_the_save_waits_for_its_copies) {
  const auto saver = make_saver(options());
  const Result<PendingSave> pending =
      saver->save(request(1, {on_device("w", iota(5 * kMiB, 1))}, 0));
  ASSERT_TRUE(pending.ok());
  EXPECT_TRUE(pending->is_released());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", iota(5 * kMiB, 1));
  EXPECT_EQ(fake_.count_of("memcpy_dtod_async"), 0U);
}

TEST_F(SnapshotTest, a_save_through_a_ring_leaves_the_device_later_with_what_is_in_host_memory) {
  SaverOptions small = options();
  small.memory_bytes = 1;
  const auto saver = make_saver(std::move(small));
  const SaveTensor w = on_device("w", iota(5 * kMiB, 1));
  const SaveTensor v = on_device("v", iota(3 * kMiB + 1, 7), 1);
  std::vector<float> counts = {0, 1, 2, 3, 4, 5};
  SaveTensor h{.name = "h",  // every second one
               .type = TensorType::f32,
               .shape = {3},
               .data = reinterpret_cast<const std::byte*>(counts.data()),
               .strides_bytes = {8}};
  fake_.hold(0, current_);
  const Result<PendingSave> pending = saver->save(request(1, {w, v, h}, 100 * kMiB));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  EXPECT_TRUE(pending->is_staged());
  EXPECT_FALSE(pending->is_released());
  fake_.enqueue_write(0, current_, pointer_of(w), raw(iota(5 * kMiB, 3)));
  counts.assign(counts.size(), -1);
  fake_.release();
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", iota(5 * kMiB, 1));
  expect_saved(1, "v", iota(3 * kMiB + 1, 7));
  expect_saved(1, "h", {0, 2, 4});
  for (const std::weak_ptr<void>& lent : lent_) EXPECT_TRUE(lent.expired());
}

TEST_F(SnapshotTest, a_save_through_a_ring_takes_a_snapshot_of_everything_or_none) {
  const OwnedTensor large = counted("h", kMiB + 1, 2);  // more than a chunk, in host memory
  for (const bool has_large : {false, true}) {
    const TempDir dir;
    SaverOptions small = options(dir.path());
    small.memory_bytes = 1;
    const auto saver = make_saver(std::move(small));
    SaveRequest own = request(1, {on_device("w", iota(5 * kMiB, 1))}, kMiB);
    if (has_large) own.tensors.push_back(large.view());
    const Result<PendingSave> pending = saver->save(std::move(own));
    ASSERT_TRUE(pending.ok());
    EXPECT_TRUE(pending->is_released());
    ASSERT_TRUE(saver->close().ok());
    expect_saved(1, "w", iota(5 * kMiB, 1), dir.path());
    if (has_large) expect_saved(1, "h", large.values, dir.path());
  }
  EXPECT_EQ(fake_.count_of("memcpy_dtod_async"), 0U);
  EXPECT_EQ(lent_.size(), 1U);  // the second asks for none
  EXPECT_TRUE(lent_.at(0).expired());
}

TEST_F(SnapshotTest, small_tensors_of_two_devices_are_gathered_into_it) {
  const auto saver = make_saver(options());
  std::vector<SaveTensor> tensors;
  for (int i = 0; i < 600; ++i)
    tensors.push_back(on_device("t" + std::to_string(1000 + i), iota(99, float(i)), i / 300));
  ASSERT_TRUE(saver->save(request(1, tensors, kMiB)).ok());
  ASSERT_TRUE(saver->close().ok());
  for (const int i : {0, 299, 300, 599})
    expect_saved(1, "t" + std::to_string(1000 + i), iota(99, float(i)));
  EXPECT_EQ(fake_.count_of("launch_kernel"), 4U);      // two for each device
  EXPECT_LE(fake_.count_of("memcpy_dtoh_async"), 4U);  // in the order of the file
}

TEST_F(SnapshotTest, its_memory_may_come_from_the_driver_and_is_freed) {
  {
    const auto saver = make_saver(options());
    for (const std::uint64_t step : {1U, 2U}) {
      SaveRequest own = request(step, {on_device("w", iota(kMiB, float(step)))}, 0);
      own.devices.snapshot_memory = make_driver_memory(
          fake_.table(), step == 1 ? 100 * kMiB : 1000);  // the second: too small
      const Result<PendingSave> pending = saver->save(own);
      ASSERT_TRUE(pending.ok());
      ASSERT_TRUE(pending->wait().ok());
      EXPECT_EQ(fake_.allocated_bytes(), 0U);
    }
    EXPECT_EQ(fake_.count_of("memcpy_dtod_async"), 1U);
    fake_.set_memory_left(0);
    SaveRequest refused = request(3, {on_device("w", iota(kMiB, 3))}, 0);
    refused.devices.snapshot_memory = make_driver_memory(fake_.table(), 100 * kMiB);
    ASSERT_TRUE(saver->save(refused).ok());
    ASSERT_TRUE(saver->close().ok());
  }
  for (const std::uint64_t step : {1U, 2U, 3U}) expect_saved(step, "w", iota(kMiB, float(step)));
  EXPECT_EQ(fake_.retained_count(), 0);
}

TEST_F(SnapshotTest, a_replaced_save_ends_its_drain_before_its_memory_is_used_again) {
  SaverOptions own = options();
  own.in_flight = 2;
  own.late = LatePolicy::replace;
  const auto saver = make_saver(std::move(own));
  const SaveTensor w = on_device("w", iota(2 * kMiB, 1));
  fake_.hold(0, current_);
  const Result<PendingSave> first = saver->save(request(1, {w}, 100 * kMiB));
  const Result<PendingSave> second = saver->save(request(2, {w}, 100 * kMiB));
  ASSERT_TRUE(first.ok() && second.ok());
  {
    const std::jthread saving([&] { EXPECT_TRUE(saver->save(request(3, {w}, 100 * kMiB)).ok()); });
    fake_.release();
  }
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1, "w", iota(2 * kMiB, 1));
  expect_saved(3, "w", iota(2 * kMiB, 1));
  for (const std::weak_ptr<void>& lent : lent_) EXPECT_TRUE(lent.expired());
}

TEST_F(SnapshotTest, a_writer_that_fails_during_the_drain_fails_the_save_and_the_next_one_works) {
  SaverOptions own = options();
  FakeSignal failed;
  own.engine = [&failed]() -> Result<std::unique_ptr<Engine>> {
    if (failed.is_set()) return make_engine(EngineKind::sync, {.depth = 8});
    failed.set();
    return Status(Code::unavailable, "no engine");
  };
  const auto saver = make_saver(std::move(own));
  const SaveTensor w = on_device("w", iota(2 * kMiB, 1));
  fake_.hold(0, current_);
  const Result<PendingSave> pending = saver->save(request(1, {w}, 100 * kMiB));
  ASSERT_TRUE(pending.ok()) << pending.status().message();
  failed.wait();
  EXPECT_FALSE(lent_.at(0).expired());  // the device has not read the tensors yet
  EXPECT_FALSE(pending->is_done());
  fake_.release();
  EXPECT_NE(pending->wait().message().find("no engine"), std::string_view::npos);
  pending->set_reported();
  EXPECT_TRUE(lent_.at(0).expired());
  ASSERT_TRUE(saver->save(request(2, {w}, 100 * kMiB)).ok());
  ASSERT_TRUE(saver->close().ok());
  EXPECT_FALSE(std::filesystem::exists(step_path(1)));
  expect_saved(2, "w", iota(2 * kMiB, 1));
}

/// A device that does not answer: the save fails at its deadline, and nothing that the device may
/// still use is freed before it does. Later saves work.
class HangingDeviceTest : public SnapshotTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  /// How much room there is for a snapshot.
  static std::size_t most() { return GetParam(); }
  SaveRequest late_request(std::uint64_t step, const SaveTensor& tensor, nanoseconds deadline) {
    SaveRequest late = request(step, {tensor, small_}, most());
    late.deadline = deadline;
    return late;
  }

  const SaveTensor small_ = on_device("small", iota(10, 5));
};

TEST_P(HangingDeviceTest,
       a_save_fails_at_its_deadline_and_its_memory_is_kept_until_the_device_ends) {
  const auto saver = make_saver(options());
  const SaveTensor w = on_device("w", iota(2 * kMiB, 1));
  fake_.hold(0, current_);
  Result<PendingSave> pending = Status(Code::unavailable, "");
  // On a busy machine the deadline may pass before the save gets to the device.
  for (std::chrono::milliseconds time(300); !pending.ok() || pending->is_released(); time *= 2) {
    pending = saver->save(late_request(1, w, time));
    const Status end = pending.ok() ? pending->wait() : pending.status();
    ASSERT_EQ(end.code(), Code::unavailable) << end.message();
    if (pending.ok()) pending->set_reported();
  }
  EXPECT_EQ(lent_.back().expired(), most() == 0);
  fake_.release();
  while (!pending->is_released()) std::this_thread::yield();
  const Result<PendingSave> next = saver->save(request(2, {w, small_}, most()));
  ASSERT_TRUE(next.ok()) << next.status().message();
  ASSERT_TRUE(saver->close().ok());
  EXPECT_FALSE(std::filesystem::exists(step_path(1)));
  expect_saved(2, "w", iota(2 * kMiB, 1));
  for (const std::weak_ptr<void>& lent : lent_) EXPECT_TRUE(lent.expired());
}

TEST_F(SnapshotTest, a_save_that_replaces_one_waits_for_its_device_until_the_deadline) {
  SaverOptions own = options();
  own.in_flight = 2;
  own.late = LatePolicy::replace;
  const auto saver = make_saver(std::move(own));
  const SaveTensor w = on_device("w", iota(kMiB, 1));
  fake_.hold(0, current_);
  const Result<PendingSave> first = saver->save(request(1, {w}, 100 * kMiB));
  const Result<PendingSave> second = saver->save(request(2, {w}, 100 * kMiB));
  ASSERT_TRUE(first.ok() && second.ok());
  SaveRequest late = request(3, {w}, 100 * kMiB);
  late.deadline = std::chrono::milliseconds(30);
  const Result<PendingSave> third = saver->save(late);
  EXPECT_EQ(second->outcome(), SaveOutcome::replaced);
  EXPECT_FALSE(second->is_released());
  EXPECT_FALSE(lent_.at(1).expired());
  fake_.release();
  ASSERT_TRUE(first->wait().ok());
  if (third.ok()) static_cast<void>(third->wait());
  while (!second->is_released()) std::this_thread::yield();
  static_cast<void>(saver->close());
  expect_saved(1, "w", iota(kMiB, 1));
  EXPECT_FALSE(std::filesystem::exists(step_path(2)));
}

TEST_F(SnapshotTest, a_save_with_pinned_memory_waits_for_the_stream_until_its_deadline) {
  const auto saver = make_saver(options());
  ASSERT_TRUE(saver->save(request(1, {on_device("w", iota(10, 1))}, 0)).ok());
  ASSERT_TRUE(saver->wait().ok());  // its staging memory is pinned now
  auto arena = memory_->maker()(kMiB);
  ASSERT_TRUE(arena.ok());
  const auto device = CudaDevice::retain(fake_.table(), 0);
  memory_->pin((*arena)->bytes(), *device);
  const SaveTensor pinned{
      .name = "p", .type = TensorType::u8, .shape = {100}, .data = (*arena)->bytes().data()};
  fake_.hold(0, current_);
  SaveRequest late = request(2, {pinned}, 0);
  late.deadline = std::chrono::milliseconds(20);
  EXPECT_EQ(saver->save(late).status().code(), Code::unavailable);
  fake_.release();
  static_cast<void>(saver->close());
}

INSTANTIATE_TEST_SUITE_P(Room, HangingDeviceTest,
                         ::testing::Values(0, 1000, 100 * kMiB));  // none, for a part, for all

}  // namespace
}  // namespace stoker::testing
