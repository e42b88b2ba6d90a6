// The model disk's engine is an engine: it passes the suite of them all.
#include "support/model_engine.h"

#include "conformance/engine_suite.h"

namespace stoker::testing {
namespace {

Result<std::unique_ptr<Engine>> make_model_engine(const EngineOptions& options) {
  static ModelDisk disk;  // the suite's files are not on it
  STOKER_ASSIGN(std::unique_ptr<Engine> target, make_sync_engine(options));
  return std::unique_ptr<Engine>(
      std::make_unique<ModelEngine>(disk, std::move(target), ModelEngine::Foreign::pass));
}

INSTANTIATE_TEST_SUITE_P(model, EngineSuite,
                         ::testing::Values(EngineMaker{"model", make_model_engine}),
                         engine_maker_name);

}  // namespace
}  // namespace stoker::testing
