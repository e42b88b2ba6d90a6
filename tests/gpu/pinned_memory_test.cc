#include "gpu/pinned_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <memory>

#include "gpu/fake_driver.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kBytes = std::size_t{1} << 20;

class PinnedMemoryTest : public ::testing::Test {
 protected:
  std::unique_ptr<Arena> make() {
    Result<std::unique_ptr<Arena>> arena = memory_->maker()(kBytes);
    EXPECT_TRUE(arena.ok());
    return *std::move(arena);
  }
  std::shared_ptr<const CudaDevice> device(int ordinal) {
    const auto device = CudaDevice::retain(fake_.table(), ordinal);
    EXPECT_TRUE(device.ok());
    return *device;
  }

  FakeDriver fake_;
  const std::shared_ptr<PinnedMemory> memory_ = PinnedMemory::make();
};

TEST_F(PinnedMemoryTest, an_arena_is_registered_once_at_its_first_use_and_until_it_is_freed) {
  std::unique_ptr<Arena> arena = make();
  EXPECT_EQ(fake_.registered_count(), 0U);
  memory_->pin(arena->bytes(), device(0));
  memory_->pin(arena->bytes().subspan(4096, 100), device(0));
  memory_->pin(arena->bytes(), device(1));
  EXPECT_EQ(fake_.registration_count(), 1U);
  EXPECT_EQ(fake_.registered_count(), 1U);
  arena = nullptr;
  EXPECT_EQ(fake_.registered_count(), 0U);
  EXPECT_EQ(fake_.retained_count(), 0);
  EXPECT_TRUE(memory_->failure().ok());
}

TEST_F(PinnedMemoryTest, the_reason_is_kept_if_the_driver_refuses) {
  const std::unique_ptr<Arena> arena = make();
  fake_.refuse_registration(true);
  memory_->pin(arena->bytes(), device(0));
  EXPECT_EQ(memory_->failure().message(), "cuMemHostRegister: CUDA_ERROR_OUT_OF_MEMORY (2)");
  fake_.refuse_registration(false);
  memory_->pin(arena->bytes(), device(0));
  EXPECT_EQ(fake_.registration_count(), 0U);  // it costs time, and was refused before
}

TEST_F(PinnedMemoryTest, other_memory_is_left_alone) {
  std::byte other{};
  memory_->pin({&other, 1}, device(0));
  EXPECT_EQ(fake_.registration_count(), 0U);
}

TEST_F(PinnedMemoryTest, a_forked_child_has_neither_the_memory_nor_calls_to_the_driver) {
  std::unique_ptr<Arena> arena = make();
  memory_->pin(arena->bytes(), device(0));
  const std::size_t calls = fake_.calls().size();
  const pid_t child = ::fork();
  if (child == 0) {
    unsigned char resident = 0;
    const bool is_there = ::mincore(arena->bytes().data(), 4096, &resident) == 0;
    arena = nullptr;
    ::_exit(!is_there && errno == ENOMEM && fake_.calls().size() == calls ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  arena->bytes().front() = std::byte{1};
}

}  // namespace
}  // namespace stoker::testing
