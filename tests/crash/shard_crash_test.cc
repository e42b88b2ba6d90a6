// Power cuts at every operation of a shard on its way to its final name.
#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "crash/protocol_crash.h"
#include "dataset/pack/shard_output.h"

namespace stoker::testing {
namespace {

class ShardCrashTest : public ProtocolCrashTest {};

/// Two shards, one behind the other.
void write_shards(CutRun& run, FileOps& ops) {
  for (int shard = 1; shard <= 2; ++shard) {
    const std::string path = "/run/shard-" + std::to_string(shard);
    Result<std::unique_ptr<ShardOutput>> output = ShardOutput::make(ops, path);
    ASSERT_TRUE(output.ok()) << output.status().message();
    ASSERT_TRUE((*output)->write(bytes_of(text_of_version(shard))).ok());
    ASSERT_TRUE((*output)->sync().ok());
    ASSERT_TRUE((*output)->publish().ok());
    run.note("published " + std::to_string(shard));
  }
}

std::string shards_are_whole(ModelDisk& disk, const CutPoint& point) {
  for (int shard = 1; shard <= 2; ++shard) {
    const std::string number = std::to_string(shard);
    const std::optional<std::string> found = text_of(disk, "/run/shard-" + number);
    if (!found && point.has("published " + number)) return "shard " + number + " is gone";
    if (found && found != text_of_version(shard)) return "shard " + number + " is not whole";
  }
  return "";
}

TEST_F(ShardCrashTest, a_shard_with_its_final_name_is_whole) {
  expect_sound(sweep(write_shards, shards_are_whole, kNone), 50);
  EXPECT_GT(sweep(write_shards, shards_are_whole, kNoFileSync).violation_count, 0U);
  EXPECT_GT(sweep(write_shards, shards_are_whole, kNoDirectorySync).violation_count, 0U);
  EXPECT_GT(sweep(write_shards, shards_are_whole, kRenameFirst).violation_count, 0U);
}

}  // namespace
}  // namespace stoker::testing
