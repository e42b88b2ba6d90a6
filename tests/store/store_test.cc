#include <gtest/gtest.h>

#include "conformance/object_store_suite.h"
#include "store/local_store.h"
#include "store/toys/memory_store.h"

namespace stoker::testing {
namespace {

std::shared_ptr<ObjectStore> make_memory_store() {
  return std::make_shared<MemoryStore>();
}

INSTANTIATE_TEST_SUITE_P(stores, ObjectStoreSuite,
                         ::testing::Values(StoreMaker{"local", local_store},
                                           StoreMaker{"memory", make_memory_store}),
                         store_maker_name);

}  // namespace
}  // namespace stoker::testing
