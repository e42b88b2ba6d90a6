#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using testing::data_target;
using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

constexpr const char* kSubject = "/data: mount options";

struct OptionCase {
  const char* fixture;
  const char* option;
  Severity severity;
  const char* fix;  ///< A part of it.
};

void PrintTo(const OptionCase& option, std::ostream* out) {
  *out << option.fixture << " " << option.option;
}

class MountOptionTest : public ::testing::TestWithParam<OptionCase> {};

TEST_P(MountOptionTest, is_found_with_its_cure) {
  FixtureMachine machine(GetParam().fixture);
  machine.add_mount_option(GetParam().option);
  const Finding finding = expect_finding(check_mount_options(machine, data_target(machine)),
                                         GetParam().severity, kSubject, GetParam().option);
  EXPECT_NE(finding.fix.find(GetParam().fix), std::string::npos) << finding.fix;
  EXPECT_NE(finding.fix.find("/data"), std::string::npos) << "the fix must name the mount";
}

INSTANTIATE_TEST_SUITE_P(
    Options, MountOptionTest,
    ::testing::Values(
        OptionCase{"ext4", "barrier=0", Severity::problem, "mount -o remount,barrier=1 /data"},
        OptionCase{"ext4", "nobarrier", Severity::problem, "mount -o remount,barrier /data"},
        OptionCase{"xfs", "nobarrier", Severity::problem, "mount -o remount,barrier /data"},
        OptionCase{"btrfs", "nobarrier", Severity::problem, "mount -o remount,barrier /data"},
        OptionCase{"ext4", "data=writeback", Severity::warning, "mount -o data=ordered /data"},
        OptionCase{"ext4", "data=journal", Severity::note, "mount -o data=ordered /data"},
        OptionCase{"ext4", "errors=continue", Severity::warning, "errors=remount-ro /data"},
        OptionCase{"btrfs", "nodatasum", Severity::warning, "mount -o datasum /data"},
        OptionCase{"btrfs", "autodefrag", Severity::note, "noautodefrag /data"},
        OptionCase{"nfs", "soft", Severity::problem, "mount -o hard /data"},
        OptionCase{"nfs", "softerr", Severity::problem, "mount -o hard /data"},
        OptionCase{"nfs", "nolock", Severity::warning, "mount -o lock /data"},
        OptionCase{"nfs", "local_lock=all", Severity::warning, "local_lock=none /data"},
        OptionCase{"nfs", "noac", Severity::note, "mount -o ac /data"},
        OptionCase{"lustre", "localflock", Severity::warning, "mount -o flock /data"},
        OptionCase{"lustre", "noflock", Severity::warning, "mount -o flock /data"},
        OptionCase{"overlay", "volatile", Severity::problem, "docker run -v"},
        OptionCase{"xfs", "sync", Severity::warning, "mount -o remount,async /data"},
        OptionCase{"xfs", "strictatime", Severity::note, "mount -o remount,noatime /data"},
        OptionCase{"ext4", "discard", Severity::note, "fstrim.timer"}));

TEST(MountOptionsTest, good_mounts_are_well) {
  for (const char* kind : {"ext4", "xfs", "btrfs", "tmpfs", "nfs", "lustre", "cephfs", "overlay"}) {
    SCOPED_TRACE(kind);
    FixtureMachine machine(kind);
    expect_well(check_mount_options(machine, data_target(machine)));
  }
}

TEST(MountOptionsTest, an_option_of_another_filesystem_is_left_alone) {
  FixtureMachine machine("xfs");
  machine.add_mount_option("soft");
  expect_well(check_mount_options(machine, data_target(machine)));
}

TEST(MountOptionsTest, an_async_nfs_mount_points_to_the_server) {
  FixtureMachine machine("nfs");
  machine.add_mount_option("async");
  const Finding finding = expect_finding(check_mount_options(machine, data_target(machine)),
                                         Severity::warning, kSubject, "async");
  EXPECT_NE(finding.fix.find("exportfs -v"), std::string::npos);
}

TEST(MountOptionsTest, small_nfs_transfers_are_a_warning) {
  FixtureMachine machine("nfs");
  machine.add_mount_option("rsize=32768");
  machine.add_mount_option("wsize=65536");
  const Findings findings = check_mount_options(machine, data_target(machine));
  const Finding reads = expect_finding(findings, Severity::warning, kSubject, "rsize=32768");
  EXPECT_NE(reads.fix.find("mount -o rsize=1048576 /data"), std::string::npos);
  expect_finding(findings, Severity::warning, kSubject, "wsize=65536");
}

TEST(MountOptionsTest, one_tcp_connection_to_nfs_is_a_note) {
  FixtureMachine machine("nfs");
  machine.drop_mount_option("nconnect=8");
  const Finding finding = expect_finding(check_mount_options(machine, data_target(machine)),
                                         Severity::note, kSubject, "one TCP connection");
  EXPECT_NE(finding.fix.find("nconnect=8"), std::string::npos);
}

TEST(MountOptionsTest, compression_on_btrfs_is_a_note) {
  FixtureMachine machine("btrfs");
  machine.add_mount_option("compress=zstd:3");
  expect_finding(check_mount_options(machine, data_target(machine)), Severity::note, kSubject,
                 "compression");
}

TEST(MountOptionsTest, a_read_only_mount_stops_checkpoints_and_not_datasets) {
  FixtureMachine machine("ext4");
  machine.add_mount_option("ro");
  const auto check = [&](Role role) {
    return check_mount_options(machine, data_target(machine, role));
  };
  expect_finding(check(Role::checkpoint), Severity::problem, kSubject, "read-only");
  expect_finding(check(Role::both), Severity::note, kSubject, "read-only");
  expect_well(check(Role::dataset));
}

TEST(MountOptionsTest, a_mount_point_with_a_blank_is_quoted_in_the_fix) {
  FixtureMachine machine("ext4");
  machine.set_text("/proc/self/mountinfo",
                   "60 27 259:5 / /data/my\\040set rw,nobarrier - ext4 /dev/nvme1n1p1 rw\n");
  machine.add_file("/data/my set/a", 1);
  const Result<Target> target = make_target(machine, "/data/my set", Role::both);
  ASSERT_TRUE(target.ok());
  const Finding finding = expect_finding(check_mount_options(machine, *target), Severity::problem,
                                         "/data/my set: mount options", "nobarrier");
  EXPECT_EQ(finding.fix, "mount -o remount,barrier '/data/my set'");
}

}  // namespace
}  // namespace stoker
