#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using testing::data_target;
using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

struct KindCase {
  const char* fixture;
  FilesystemType type;
  const char* seen;  ///< Words that only this row of the table says.
};

void PrintTo(const KindCase& kind, std::ostream* out) {
  *out << kind.fixture;
}

class FilesystemKindTest : public ::testing::TestWithParam<KindCase> {};

TEST_P(FilesystemKindTest, is_recognised_and_its_promises_are_told) {
  FixtureMachine machine(GetParam().fixture);
  const Target target = data_target(machine);
  EXPECT_EQ(target.kind, GetParam().type);
  const Findings findings = check_filesystem(machine, target);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].subject, "/data: filesystem");
  EXPECT_NE(findings[0].seen.find(GetParam().seen), std::string::npos) << findings[0].seen;
}

TEST_P(FilesystemKindTest, is_recognised_by_its_mount_type_when_the_magic_is_unknown) {
  FixtureMachine machine(GetParam().fixture);
  machine.volume_at("/data").type_magic = 0x12345;
  EXPECT_EQ(data_target(machine).kind, GetParam().type);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, FilesystemKindTest,
    ::testing::Values(
        KindCase{"ext4", FilesystemType::ext4, "ext4, type ext4 from /dev/nvme1n1p1 at /data"},
        KindCase{"xfs", FilesystemType::xfs, "XFS"},
        KindCase{"zfs", FilesystemType::zfs, "durable unless sync=disabled"},
        KindCase{"btrfs", FilesystemType::btrfs, "hard links: inside a subvolume"},
        KindCase{"tmpfs", FilesystemType::tmpfs, "fsync: without effect"},
        KindCase{"nfs", FilesystemType::nfs, "RENAME_NOREPLACE refused"},
        KindCase{"lustre", FilesystemType::lustre, "in whole pages"},
        KindCase{"gpfs", FilesystemType::gpfs, "GPFS"},
        KindCase{"beegfs", FilesystemType::beegfs, "hard links: only inside one directory"},
        KindCase{"weka", FilesystemType::weka, "Weka"},
        KindCase{"cephfs", FilesystemType::cephfs, "CephFS, type ceph"},
        KindCase{"ceph_fuse", FilesystemType::ceph_fuse, "through ceph-fuse"},
        KindCase{"fuse", FilesystemType::fuse, "rename: up to the daemon"},
        KindCase{"object_fuse", FilesystemType::object_fuse, "copy and delete: not atomic"},
        KindCase{"overlay", FilesystemType::overlay, "EXDEV for directories of a lower layer"},
        KindCase{"unknown", FilesystemType::unknown, "frobfs (magic 0xf20bf5)"}),
    [](const auto& kind) { return std::string(kind.param.fixture); });

TEST(FilesystemTest, disks_and_parallel_filesystems_are_well) {
  for (const char* kind : {"ext4", "xfs", "zfs", "btrfs", "nfs", "lustre", "gpfs", "beegfs", "weka",
                           "cephfs", "ceph_fuse"}) {
    SCOPED_TRACE(kind);
    FixtureMachine machine(kind);
    expect_well(check_filesystem(machine, data_target(machine)));
  }
}

TEST(FilesystemTest, ext2_is_not_taken_for_ext4) {
  FixtureMachine machine("ext4");
  machine.set_text("/proc/self/mountinfo", "60 27 259:5 / /data rw - ext2 /dev/nvme1n1p1 rw\n");
  EXPECT_EQ(data_target(machine).kind, FilesystemType::unknown);
}

TEST(FilesystemTest, checkpoints_on_tmpfs_are_a_problem_and_datasets_a_note) {
  FixtureMachine machine("tmpfs");
  const auto check = [&](Role role) {
    return check_filesystem(machine, data_target(machine, role));
  };
  expect_finding(check(Role::both), Severity::problem, "/data: filesystem", "tmpfs");
  expect_finding(check(Role::checkpoint), Severity::problem, "/data: filesystem", "tmpfs");
  expect_finding(check(Role::dataset), Severity::note, "/data: filesystem", "tmpfs");
}

TEST(FilesystemTest, a_container_layer_is_a_warning) {
  FixtureMachine machine("overlay");
  const Finding finding = expect_finding(check_filesystem(machine, data_target(machine)),
                                         Severity::warning, "/data: filesystem", "overlay");
  EXPECT_NE(finding.why.find("deleted with the container"), std::string::npos);
  EXPECT_NE(finding.fix.find("docker run -v"), std::string::npos);
}

TEST(FilesystemTest, an_object_store_through_fuse_cannot_commit_a_checkpoint) {
  FixtureMachine machine("object_fuse");
  const auto check = [&](Role role) {
    return check_filesystem(machine, data_target(machine, role));
  };
  expect_finding(check(Role::checkpoint), Severity::problem, "/data: filesystem", "object store");
  expect_finding(check(Role::both), Severity::warning, "/data: filesystem", "object store");
  expect_finding(check(Role::dataset), Severity::note, "/data: filesystem", "object store");
}

TEST(FilesystemTest, other_fuse_daemons_are_a_warning_and_strangers_a_note) {
  FixtureMachine fuse("fuse");
  expect_finding(check_filesystem(fuse, data_target(fuse)), Severity::warning, "/data: filesystem",
                 "fuse.sshfs");
  FixtureMachine unknown("unknown");
  expect_finding(check_filesystem(unknown, data_target(unknown)), Severity::note,
                 "/data: filesystem", "frobfs");
}

TEST(ZfsTest, a_well_set_dataset_is_well) {
  FixtureMachine machine("zfs");
  expect_well(check_zfs(machine, data_target(machine)));
}

TEST(ZfsTest, disabled_sync_is_a_problem) {
  FixtureMachine machine("zfs");
  machine.set_command("zfs get -Hp -o property,value sync,recordsize,atime tank/data",
                      "sync\tdisabled\nrecordsize\t131072\natime\ton\n");
  const Findings findings = check_zfs(machine, data_target(machine));
  EXPECT_EQ(expect_finding(findings, Severity::problem, "/data: ZFS", "sync=disabled").fix,
            "zfs set sync=standard tank/data");
  const Finding record =
      expect_finding(findings, Severity::note, "/data: ZFS", "recordsize=131072");
  EXPECT_NE(record.fix.find("zfs set recordsize=1M tank/data"), std::string::npos);
  EXPECT_EQ(expect_finding(findings, Severity::note, "/data: ZFS", "atime=on").fix,
            "zfs set atime=off tank/data");
}

TEST(ZfsTest, a_missing_zfs_command_is_said) {
  FixtureMachine machine("zfs");
  machine.uninstall("zfs");
  expect_finding(check_zfs(machine, data_target(machine)), Severity::note, "/data: ZFS",
                 "does not answer");
}

}  // namespace
}  // namespace stoker
