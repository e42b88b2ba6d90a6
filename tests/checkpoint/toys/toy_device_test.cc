// Saves from a device: another copier and another staging memory, and everything else as it is.
#include "checkpoint/toys/toy_device.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <numeric>
#include <stdexcept>

#include "checkpoint/save_support.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

class ToyDeviceTest : public ::testing::Test {
 protected:
  SaverOptions options() {
    SaverOptions options = quiet_options(dir_.path());
    options.copier = device_.copier();
    options.staging_arena = device_.pinned_memory();
    return options;
  }
  SaveRequest request(std::uint64_t step) {
    std::vector<float> values(5 * kMiB);
    std::iota(values.begin(), values.end(), static_cast<float>(step));
    SaveRequest request{.step = step, .tensors = {device_.upload("w", values)}};
    request.tensors.push_back(device_.upload("b", {1, 2, static_cast<float>(step)}));
    return request;
  }
  void expect_saved(std::uint64_t step) const {
    const std::string at = dir_.path() + "/" + step_name(step);
    expect_whole(at);
    const std::string file = at + "/" + manifest_in(at).files.at(0).name;
    const std::vector<float> w = read_plainly(file, "w");
    ASSERT_EQ(w.size(), 5 * kMiB);
    EXPECT_EQ(w.front(), static_cast<float>(step));
    EXPECT_EQ(w[kMiB], static_cast<float>(step + kMiB));
    EXPECT_EQ(read_plainly(file, "b"), (std::vector<float>{1, 2, static_cast<float>(step)}));
  }

  const TempDir dir_;
  ToyDevice device_;
};

TEST_F(ToyDeviceTest, its_tensors_are_saved) {
  const auto saver = make_saver(options());
  for (const std::uint64_t step : {1U, 2U}) ASSERT_TRUE(saver->save(request(step)).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1);
  expect_saved(2);
}

TEST_F(ToyDeviceTest, they_pass_through_a_ring_of_two_chunks) {
  SaverOptions small = options();
  small.memory_bytes = 1;
  const auto saver = make_saver(std::move(small));
  ASSERT_TRUE(saver->save(request(1)).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1);
}

TEST_F(ToyDeviceTest, a_copy_that_fails_commits_nothing_and_the_next_save_works) {
  const auto saver = make_saver(options());
  device_.fail_at(2);
  const Result<PendingSave> failing = saver->save(request(1));
  ASSERT_TRUE(failing.ok());
  EXPECT_NE(failing->wait().message().find("the device has failed"), std::string_view::npos);
  failing->set_reported();
  EXPECT_FALSE(std::filesystem::exists(dir_.path() + "/" + step_name(1)));
  device_.fail_at(1000);
  ASSERT_TRUE(saver->save(request(1)).ok());
  ASSERT_TRUE(saver->close().ok());
  expect_saved(1);
}

TEST_F(ToyDeviceTest, memory_that_it_has_not_pinned_and_tensors_of_others_are_refused) {
  SaverOptions plain = options();
  plain.staging_arena = {};
  const auto saver = make_saver(std::move(plain));
  const Result<PendingSave> unpinned = saver->save(request(1));
  ASSERT_TRUE(unpinned.ok());
  EXPECT_EQ(unpinned->wait().code(), Code::io_error);
  unpinned->set_reported();
  const OwnedTensor host = counted("w", 10, 1);
  EXPECT_EQ(saver->save(request_of(2, {host})).status().code(), Code::invalid_argument);
}

/// Fails without a word to the staging memory, in one way and the next time in the other.
class RudeCopier final : public TensorCopier {
 public:
  Status copy(const CheckpointLayout&, std::span<const SaveTensor>, Staging&) override {
    if (calls_++ == 0) throw std::runtime_error("the device was lost");
    return Status(Code::io_error, "the device is still lost");
  }
  Result<std::vector<Digest128>> digests(std::span<const SaveTensor>, CopyRest&) override {
    return Status(Code::io_error, "the device is still lost");
  }

 private:
  int calls_ = 0;
};

TEST(TensorCopierTest, one_that_throws_or_only_returns_an_error_fails_its_save_at_once) {
  const TempDir dir;
  SaverOptions options = quiet_options(dir.path());
  options.copier = std::make_shared<RudeCopier>();
  const auto saver = make_saver(std::move(options));
  for (const char* const reason : {"the device was lost", "the device is still lost"}) {
    const Result<PendingSave> failing = saver->save(request_of(1, {counted("w", 10, 1)}));
    ASSERT_TRUE(failing.ok()) << failing.status().message();
    EXPECT_NE(failing->wait().message().find(reason), std::string_view::npos)
        << failing->wait().message();
    failing->set_reported();
  }
  EXPECT_TRUE(saver->close().ok());
}

TEST(HostCopierTest, a_tensor_without_data_is_refused_before_anything_is_written) {
  const TempDir dir;
  const auto saver = make_saver(quiet_options(dir.path()));
  SaveRequest request{.step = 1, .tensors = {{.name = "w", .shape = {3}}}};
  const Status refused = saver->save(request).status();
  EXPECT_EQ(refused.code(), Code::invalid_argument);
  EXPECT_NE(refused.message().find("tensor w: it has no data"), std::string_view::npos);
  request.tensors[0].shape = {3, 0};  // none of them is needed
  EXPECT_TRUE(saver->save(request).ok());
  EXPECT_TRUE(saver->close().ok());
}

}  // namespace
}  // namespace stoker::testing
