#pragma once

#include "gpu/fake_driver.h"

namespace stoker::testing {

/// The driver of a process that has the library stoker_fake_cuda, which is called libcuda.so.1: a
/// program that is linked with it, or that finds it by LD_LIBRARY_PATH. It lives as long as the
/// process.
FakeDriver& fake_cuda();

}  // namespace stoker::testing
