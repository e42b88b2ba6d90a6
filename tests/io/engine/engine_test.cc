#include "conformance/engine_suite.h"

namespace stoker::testing {
namespace {

Result<std::unique_ptr<Engine>> make_polled_uring(const EngineOptions& options) {
  EngineOptions polled = options;
  polled.kernel_polling = true;
  return make_uring_engine(polled);
}

Result<std::unique_ptr<Engine>> make_spinning_uring(const EngineOptions& options) {
  EngineOptions spinning = options;
  spinning.spin = std::chrono::milliseconds(1);
  return make_uring_engine(spinning);
}

INSTANTIATE_TEST_SUITE_P(engines, EngineSuite,
                         ::testing::Values(EngineMaker{"uring", make_uring_engine},
                                           EngineMaker{"polled_uring", make_polled_uring},
                                           EngineMaker{"spinning_uring", make_spinning_uring},
                                           EngineMaker{"threads", make_threads_engine},
                                           EngineMaker{"sync", make_sync_engine}),
                         engine_maker_name);

}  // namespace
}  // namespace stoker::testing
