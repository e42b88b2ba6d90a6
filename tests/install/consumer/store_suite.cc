// The suite that every store must pass, run by a stranger.
#include <object_store_suite.h>

namespace stoker::testing {

INSTANTIATE_TEST_SUITE_P(local, ObjectStoreSuite,
                         ::testing::Values(ObjectStoreMaker{"local", local_store}),
                         object_store_name);

}  // namespace stoker::testing
