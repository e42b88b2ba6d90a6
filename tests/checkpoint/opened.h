#pragma once

#include <gtest/gtest.h>

#include <string>

#include "checkpoint/directory/checkpoint_directory.h"
#include "io/files/file_ops.h"

namespace stoker::testing {

/// The directory of checkpoints, which must be there.
inline CheckpointDirectory opened(const std::string& path, FileOps& ops = posix_file_ops()) {
  Result<CheckpointDirectory> directory = CheckpointDirectory::open(ops, path);
  EXPECT_TRUE(directory.ok()) << directory.status().message();
  return *std::move(directory);
}

}  // namespace stoker::testing
