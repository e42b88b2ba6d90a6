#include "killing_file_ops.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>

#include "io/files/forwarding_file_ops.h"

namespace stoker::python {
namespace {

class KillingFileOps final : public ForwardingFileOps {
 public:
  KillingFileOps(std::string crash_point, std::uint32_t count)
      : ForwardingFileOps(posix_file_ops()), crash_point_(std::move(crash_point)), left_(count) {}

  void reached(std::string_view crash_point) override {
    if (crash_point == crash_point_ && left_.fetch_sub(1, std::memory_order_relaxed) == 1)
      ::kill(::getpid(), SIGKILL);
  }

 private:
  const std::string crash_point_;
  std::atomic<std::uint32_t> left_;  // relaxed: guards no other data
};

}  // namespace

std::unique_ptr<FileOps> make_killing_file_ops(std::string crash_point, std::uint32_t count) {
  return std::make_unique<KillingFileOps>(std::move(crash_point), count);
}

}  // namespace stoker::python
