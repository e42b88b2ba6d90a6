#include <filesystem>

#include "checkpoint/ranks/carried_place.h"
#include "checkpoint/ranks/carried_texts.h"
#include "checkpoint/ranks/directory_place.h"
#include "conformance/coordinator_suite.h"

namespace stoker::testing {
namespace {

class FileMessages final : public SharedMessages {
 public:
  std::shared_ptr<Coordinator> join(const CoordinatorOptions& options) override {
    auto made = make_coordinator(
        std::make_unique<DirectoryPlace>(opened(dir_.path()), "job", "1.0"), options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    return *std::move(made);
  }
  std::size_t count() const override {
    const std::filesystem::path folder = dir_.file(".meeting-job");
    if (!std::filesystem::exists(folder)) return 0;
    return static_cast<std::size_t>(std::distance(std::filesystem::directory_iterator(folder), {}));
  }

 private:
  const TempDir dir_;
};

/// Each rank has a carrier of its own.
class CarriedMessages final : public SharedMessages {
 public:
  std::shared_ptr<Coordinator> join(const CoordinatorOptions& options) override {
    const auto thread = std::make_shared<CarrierThread>(texts_);
    auto made = make_coordinator(
        std::make_unique<CarriedPlace>(CarriedPlaceOptions{
            .carrier = thread->carrier(), .prefix = "1.0/", .pause = options.pause}),
        options);
    EXPECT_TRUE(made.ok()) << made.status().message();
    struct Joined {
      std::shared_ptr<CarrierThread> thread;
      std::unique_ptr<Coordinator> coordinator;
    };
    auto joined = std::make_shared<Joined>(Joined{thread, *std::move(made)});
    Coordinator* const coordinator = joined->coordinator.get();
    return {std::move(joined), coordinator};
  }
  std::size_t count() const override { return texts_->all().size(); }

 private:
  const std::shared_ptr<CarriedTexts> texts_ = std::make_shared<CarriedTexts>();
};

template <typename Messages>
std::unique_ptr<SharedMessages> make_messages() {
  return std::make_unique<Messages>();
}

INSTANTIATE_TEST_SUITE_P(places, CoordinatorSuite,
                         ::testing::Values(MessagesMaker{"directory", make_messages<FileMessages>},
                                           MessagesMaker{"carried",
                                                         make_messages<CarriedMessages>}),
                         messages_name);

}  // namespace
}  // namespace stoker::testing
