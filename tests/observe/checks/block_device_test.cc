#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::data_target;
using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

const std::string kQueue = "/sys/block/nvme1n1/queue/";

TEST(BlockStackTest, a_partition_leads_to_its_disk) {
  FixtureMachine machine("ext4");
  const BlockStack blocks = data_target(machine).blocks;
  EXPECT_EQ(blocks.top, "nvme1n1");
  EXPECT_EQ(blocks.disks, std::vector<std::string>{"nvme1n1"});
}

TEST(BlockStackTest, btrfs_is_found_by_its_source) {
  FixtureMachine machine("btrfs");
  EXPECT_EQ(data_target(machine).blocks.top, "nvme1n1");
}

TEST(BlockStackTest, device_mapper_over_md_leads_to_every_disk) {
  FixtureMachine machine("raid");
  const BlockStack blocks = data_target(machine).blocks;
  EXPECT_EQ(blocks.top, "dm-0");
  EXPECT_EQ(blocks.disks, (std::vector<std::string>{"nvme0n1", "nvme1n1"}));
}

TEST(BlockStackTest, network_filesystems_have_no_device) {
  FixtureMachine machine("nfs");
  EXPECT_EQ(data_target(machine).blocks.top, "");
  EXPECT_TRUE(check_block_device(machine, data_target(machine)).empty());
}

TEST(BlockStackTest, devices_that_point_at_each_other_end) {
  FixtureMachine machine("raid");
  machine.set_text("/sys/block/md0/slaves/dm-0/partition", "1\n");
  EXPECT_FALSE(data_target(machine).blocks.disks.empty());
}

TEST(BlockDeviceTest, a_well_set_drive_is_well) {
  FixtureMachine machine("ext4");
  const Findings findings = check_block_device(machine, data_target(machine));
  expect_well(findings);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].seen, "nvme1n1 reads 4096 KiB ahead");
  EXPECT_EQ(findings[1].seen, "volatile write cache, flushed by fsync");
}

TEST(BlockDeviceTest, small_read_ahead_is_a_note_and_none_a_warning) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "read_ahead_kb", "128\n");
  const Finding finding =
      expect_finding(check_block_device(machine, data_target(machine)), Severity::note,
                     "/data: read-ahead", "nvme1n1 reads 128 KiB ahead");
  EXPECT_EQ(finding.fix, "echo 4096 > /sys/block/nvme1n1/queue/read_ahead_kb");
  machine.set_text(kQueue + "read_ahead_kb", "0\n");
  expect_finding(check_block_device(machine, data_target(machine)), Severity::warning,
                 "/data: read-ahead", "0 KiB");
}

TEST(BlockDeviceTest, read_ahead_is_that_of_the_mounted_device) {
  FixtureMachine machine("raid");
  EXPECT_EQ(expect_finding(check_block_device(machine, data_target(machine)), Severity::note,
                           "/data: read-ahead", "dm-0")
                .fix,
            "echo 4096 > /sys/block/dm-0/queue/read_ahead_kb");
}

TEST(BlockDeviceTest, a_scheduler_on_nvme_is_a_note) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "scheduler", "none [mq-deadline] kyber\n");
  EXPECT_EQ(expect_finding(check_block_device(machine, data_target(machine)), Severity::note,
                           "/data: disk nvme1n1", "scheduler mq-deadline")
                .fix,
            "echo none > /sys/block/nvme1n1/queue/scheduler");
}

TEST(BlockDeviceTest, a_rotating_disk_is_a_warning_and_needs_a_scheduler) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "rotational", "1\n").set_read_time("/dev/nvme1n1", milliseconds(8));
  const Findings findings = check_block_device(machine, data_target(machine));
  expect_finding(findings, Severity::warning, "/data: disk nvme1n1",
                 "it rotates: a random read takes 8 ms");
  EXPECT_EQ(expect_finding(findings, Severity::note, "/data: disk nvme1n1",
                           "scheduler none on a rotating disk")
                .fix,
            "echo mq-deadline > /sys/block/nvme1n1/queue/scheduler");
}

TEST(BlockDeviceTest, a_disk_that_a_measurement_contradicts_does_not_rotate) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "rotational", "1\n").set_read_time("/dev/nvme1n1", microseconds(52));
  const Findings findings = check_block_device(machine, data_target(machine));
  expect_well(findings);
  EXPECT_EQ(findings[1].seen,
            "reports that it rotates, but does not: a random read takes 52 us (median of 64)");
}

TEST(BlockDeviceTest, without_the_right_to_read_the_device_a_large_file_on_it_is_measured) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "rotational", "1\n").add_file("/data/deep/large.bin", 8ULL << 30);
  machine.set_read_time("/data/deep/large.bin", microseconds(52));
  expect_well(check_block_device(machine, data_target(machine)));
  machine.set_read_time("/data/deep/large.bin", milliseconds(9));
  expect_finding(check_block_device(machine, data_target(machine)), Severity::warning,
                 "/data: disk nvme1n1", "it rotates: a random read takes 9 ms");
}

TEST(BlockDeviceTest, a_virtual_disk_that_cannot_be_measured_is_only_a_note) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "rotational", "1\n");
  machine.set_text("/sys/block/nvme1n1/device/model", "QEMU HARDDISK\n");
  const Finding finding =
      expect_finding(check_block_device(machine, data_target(machine)), Severity::note,
                     "/data: disk nvme1n1", "a virtual disk that reports that it rotates");
  EXPECT_TRUE(finding.fix.starts_with("stoker bench disk /data --quick")) << finding.fix;
}

TEST(BlockDeviceTest, on_a_rotating_disk_only_loose_files_are_to_be_packed) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "rotational", "1\n");
  const auto fix_of = [](FixtureMachine& sick, const std::string& path) {
    const Result<Target> target = make_target(sick, path, Role::both);
    EXPECT_TRUE(target.ok());
    return expect_finding(check_block_device(sick, *target), Severity::warning,
                          path + ": disk nvme1n1", "it rotates")
        .fix;
  };
  EXPECT_TRUE(fix_of(machine, "/data").starts_with("stoker stream /data --shuffle block"))
      << "its tars are shards already";
  EXPECT_TRUE(fix_of(machine, "/data/train-000000.tar").starts_with("read datasets with"));
  machine.remove("/data/train-000000.tar").remove("/data/train-000001.tar");
  EXPECT_EQ(fix_of(machine, "/data").find("pack"), std::string::npos) << "there is nothing to pack";
  machine.add_file("/data/cat/1.jpg", 90'000).add_file("/data/dog/1.jpg", 90'000);
  EXPECT_TRUE(fix_of(machine, "/data").starts_with("stoker pack /data /data-shards"));
}

TEST(BlockDeviceTest, small_requests_are_a_note) {
  FixtureMachine machine("ext4");
  machine.set_text(kQueue + "max_sectors_kb", "128\n");
  EXPECT_EQ(expect_finding(check_block_device(machine, data_target(machine)), Severity::note,
                           "/data: disk nvme1n1", "requests are cut at 128 KiB")
                .fix,
            "echo 1280 > /sys/block/nvme1n1/queue/max_sectors_kb");
}

TEST(BlockDeviceTest, a_read_only_device_stops_checkpoints) {
  FixtureMachine machine("ext4");
  machine.set_text("/sys/block/nvme1n1/ro", "1\n");
  expect_finding(check_block_device(machine, data_target(machine)), Severity::problem,
                 "/data: disk nvme1n1", "read-only");
  expect_well(check_block_device(machine, data_target(machine, Role::dataset)));
}

TEST(BlockDeviceTest, the_write_cache_is_told) {
  FixtureMachine machine("fabrics");
  const Findings findings = check_block_device(machine, data_target(machine));
  expect_well(findings);
  EXPECT_EQ(findings.back().seen, "no volatile write cache");
  machine = FixtureMachine("ext4");
  machine.set_text(kQueue + "rotational", "1\n");
  EXPECT_EQ(check_block_device(machine, data_target(machine)).back().seen,
            "volatile write cache, flushed by fsync")
      << "also of a disk with other findings";
}

TEST(NetworkReadAheadTest, a_large_one_is_well_and_the_default_a_warning) {
  FixtureMachine machine("nfs");
  expect_well(check_network_read_ahead(machine, data_target(machine)));
  machine.set_text("/sys/class/bdi/0:53/read_ahead_kb", "128\n");
  EXPECT_EQ(expect_finding(check_network_read_ahead(machine, data_target(machine)),
                           Severity::warning, "/data: read-ahead", "128 KiB ahead")
                .fix,
            "echo 15360 > /sys/class/bdi/0:53/read_ahead_kb");
}

TEST(NetworkReadAheadTest, local_filesystems_are_not_concerned) {
  FixtureMachine machine("ext4");
  EXPECT_TRUE(check_network_read_ahead(machine, data_target(machine)).empty());
}

}  // namespace
}  // namespace stoker
