#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

TEST(DirtyLimitsTest, limits_in_bytes_are_well) {
  FixtureMachine machine("base");
  expect_well(check_dirty_limits(machine));
}

TEST(DirtyLimitsTest, the_default_ratios_are_too_much_for_a_large_memory) {
  FixtureMachine machine("base");
  machine.set_text("/proc/sys/vm/dirty_bytes", "0\n").set_text("/proc/sys/vm/dirty_ratio", "20\n");
  const Finding finding = expect_finding(check_dirty_limits(machine), Severity::warning,
                                         "dirty pages", "writers wait at 202 GiB");
  EXPECT_NE(finding.fix.find("sysctl -w vm.dirty_background_bytes=1073741824 "
                             "vm.dirty_bytes=4294967296"),
            std::string::npos)
      << finding.fix;
}

TEST(DirtyLimitsTest, the_advice_is_scaled_to_the_memory) {
  FixtureMachine machine("base");
  machine.set_text("/proc/meminfo", "MemTotal: 16777216 kB\n");
  machine.set_text("/proc/sys/vm/dirty_bytes", "10737418240\n");
  const Finding finding =
      expect_finding(check_dirty_limits(machine), Severity::warning, "dirty pages", "10 GiB");
  EXPECT_NE(finding.fix.find("vm.dirty_background_bytes=268435456 vm.dirty_bytes=1073741824"),
            std::string::npos)
      << finding.fix;
}

TEST(DirtyLimitsTest, a_tiny_limit_is_a_note) {
  FixtureMachine machine("base");
  machine.set_text("/proc/sys/vm/dirty_bytes", "1048576\n");
  expect_finding(check_dirty_limits(machine), Severity::note, "dirty pages", "wait at 1 MiB");
}

TEST(DirtyLimitsTest, unreadable_limits_are_said) {
  FixtureMachine machine("base");
  machine.remove("/proc/sys/vm");
  expect_finding(check_dirty_limits(machine), Severity::note, "dirty pages", "cannot be read");
}

TEST(HugePagesTest, madvise_is_well) {
  FixtureMachine machine("base");
  expect_well(check_huge_pages(machine));
}

TEST(HugePagesTest, never_and_eager_compaction_and_absence_are_notes) {
  const std::string directory = "/sys/kernel/mm/transparent_hugepage/";
  FixtureMachine machine("base");
  machine.set_text(directory + "defrag", "[always] defer madvise never\n");
  EXPECT_EQ(expect_finding(check_huge_pages(machine), Severity::note, "huge pages",
                           "defragmentation: always")
                .fix,
            "echo defer+madvise > " + directory + "defrag");
  machine.set_text(directory + "enabled", "always madvise [never]\n");
  EXPECT_EQ(
      expect_finding(check_huge_pages(machine), Severity::note, "huge pages", "pages: never").fix,
      "echo madvise > " + directory + "enabled");
  machine.remove("/sys/kernel/mm/transparent_hugepage");
  expect_finding(check_huge_pages(machine), Severity::note, "huge pages", "no transparent");
}

TEST(SharedMemoryTest, half_of_memory_is_well) {
  FixtureMachine machine("base");
  expect_well(check_shared_memory(machine));
}

TEST(SharedMemoryTest, what_a_container_gets_is_a_warning) {
  FixtureMachine machine("container");
  const Finding finding =
      expect_finding(check_shared_memory(machine), Severity::warning, "/dev/shm", "of 64 MiB");
  EXPECT_EQ(finding.fix,
            "mount -o remount,size=503G /dev/shm   # container: docker run --shm-size=503g");
}

TEST(SharedMemoryTest, a_full_one_and_a_missing_one_are_warnings) {
  FixtureMachine machine("base");
  machine.volume_at("/dev/shm").blocks_available = 1000;
  expect_finding(check_shared_memory(machine), Severity::warning, "/dev/shm", "free of 504 GiB");
  machine.volume_at("/dev/shm").type_magic = 0xef53;  // an ordinary directory of the root
  const Finding finding =
      expect_finding(check_shared_memory(machine), Severity::warning, "/dev/shm", "no tmpfs");
  EXPECT_NE(finding.fix.find("mount -t tmpfs -o size=503G"), std::string::npos);
}

TEST(LockedMemoryTest, no_limit_and_a_large_one_and_root_are_well) {
  FixtureMachine machine("base");
  expect_well(check_locked_memory(machine));
  machine.locked_memory = {4096 * kMiB, 4096 * kMiB};
  expect_well(check_locked_memory(machine));
  machine.locked_memory = {8 * kMiB, 8 * kMiB};
  machine.root = true;
  expect_well(check_locked_memory(machine));
}

TEST(LockedMemoryTest, eight_mebibytes_are_a_warning) {
  FixtureMachine machine("container");
  Finding finding = expect_finding(check_locked_memory(machine), Severity::warning, "locked memory",
                                   "RLIMIT_MEMLOCK is 8 MiB");
  EXPECT_NE(finding.fix.find("'* - memlock unlimited' > /etc/security/limits.d/"),
            std::string::npos);
  EXPECT_NE(finding.fix.find("--ulimit memlock=-1"), std::string::npos);
  machine.locked_memory.hard = ResourceLimit::kUnlimited;
  finding =
      expect_finding(check_locked_memory(machine), Severity::warning, "locked memory", "8 MiB");
  EXPECT_EQ(finding.fix, "ulimit -l unlimited");
}

TEST(OpenFilesTest, a_million_is_well_and_a_thousand_a_warning) {
  FixtureMachine healthy("base");
  expect_well(check_open_files(healthy));
  FixtureMachine machine("container");
  Finding finding = expect_finding(check_open_files(machine), Severity::warning, "open files",
                                   "RLIMIT_NOFILE is 1024");
  EXPECT_EQ(finding.fix, "ulimit -n 65536");
  machine.open_files.hard = 4096;
  finding = expect_finding(check_open_files(machine), Severity::warning, "open files", "1024");
  EXPECT_NE(finding.fix.find("'* - nofile 65536'"), std::string::npos);
}

TEST(UringTest, a_working_one_is_well) {
  FixtureMachine machine("base");
  expect_well(check_uring(machine));
}

TEST(UringTest, the_fix_names_who_forbids_it) {
  FixtureMachine machine("container");
  Finding finding = expect_finding(check_uring(machine), Severity::warning, "io_uring",
                                   "not usable: io_uring_setup: Operation not permitted");
  EXPECT_NE(finding.fix.find("seccomp=unconfined"), std::string::npos);

  machine.set_text("/proc/sys/kernel/io_uring_disabled", "2\n");
  finding = expect_finding(check_uring(machine), Severity::warning, "io_uring", "not usable");
  EXPECT_NE(finding.fix.find("sysctl -w kernel.io_uring_disabled=0"), std::string::npos);

  machine.remove("/proc/sys/kernel/io_uring_disabled").remove("/proc/self/status");
  finding = expect_finding(check_uring(machine), Severity::warning, "io_uring", "not usable");
  EXPECT_NE(finding.fix.find("uname -r"), std::string::npos);
  EXPECT_NE(finding.fix.find("5.11"), std::string::npos) << "as the engine itself says";
}

TEST(PressureTest, a_calm_machine_is_well) {
  FixtureMachine machine("base");
  expect_well(check_pressure(machine));
}

TEST(PressureTest, each_resource_has_its_own_finding) {
  FixtureMachine machine("base");
  machine.set_text("/proc/pressure/io",
                   "some avg10=60.00 avg60=50.00 avg300=1.00 total=1\n"
                   "full avg10=45.00 avg60=40.50 avg300=1.00 total=1\n");
  machine.set_text("/proc/pressure/memory", "some avg10=9.00 avg60=8.00 avg300=1.00 total=1\n");
  machine.set_text("/proc/pressure/cpu", "some avg10=90.00 avg60=80.00 avg300=1.00 total=1\n");
  const Findings findings = check_pressure(machine);
  expect_finding(findings, Severity::warning, "io pressure", "io full 40.5 %");
  expect_finding(findings, Severity::warning, "memory pressure", "memory some 8.0 %");
  expect_finding(findings, Severity::note, "cpu pressure", "cpu some 80.0 %");
}

TEST(PressureTest, a_kernel_without_it_is_a_note) {
  FixtureMachine machine("base");
  machine.remove("/proc/pressure");
  expect_finding(check_pressure(machine), Severity::note, "pressure", "does not exist");
}

TEST(NumaTest, drives_and_gpus_on_both_nodes_are_well) {
  FixtureMachine machine("base");
  expect_well(check_numa(machine));
}

TEST(NumaTest, one_node_is_well_whatever_else_is_said) {
  FixtureMachine machine("base");
  machine.remove("/sys/devices/system/node/node1");
  machine.set_text("/proc/sys/vm/zone_reclaim_mode", "1\n");
  expect_well(check_numa(machine));
}

TEST(NumaTest, zone_reclaim_is_a_warning) {
  FixtureMachine machine("base");
  machine.set_text("/proc/sys/vm/zone_reclaim_mode", "1\n");
  const Finding finding =
      expect_finding(check_numa(machine), Severity::warning, "NUMA", "zone_reclaim_mode is on");
  EXPECT_NE(finding.fix.find("sysctl -w vm.zone_reclaim_mode=0"), std::string::npos);
}

TEST(NumaTest, a_gpu_far_from_every_drive_is_a_note) {
  FixtureMachine machine("base");
  machine.set_text("/sys/class/nvme/nvme1/numa_node", "0\n");
  const Finding finding = expect_finding(check_numa(machine), Severity::note,
                                         "NUMA: GPU 0000:9b:00.0", "attached to node 1");
  EXPECT_NE(finding.fix.find("numactl --cpunodebind=1"), std::string::npos);
}

}  // namespace
}  // namespace stoker
