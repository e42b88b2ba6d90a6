#include "observe/gpu.h"

#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using testing::data_target;
using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

constexpr const char* kDriver = "/proc/driver/nvidia/version";

TEST(GpuTest, each_gpu_is_told_with_its_model) {
  FixtureMachine machine("base");
  const Findings findings = check_gpus(machine);
  expect_well(findings);
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].subject, "GPU 0000:1b:00.0");
  EXPECT_EQ(findings[0].seen, "NVIDIA H100 80GB HBM3");
}

TEST(GpuTest, a_machine_without_a_driver_is_well) {
  FixtureMachine machine("base");
  machine.remove("/proc/driver");
  expect_well(check_gpus(machine));
  expect_well(check_peer_to_peer(machine));
}

TEST(GpuTest, a_driver_without_a_gpu_is_a_warning) {
  FixtureMachine machine("base");
  machine.remove("/proc/driver/nvidia/gpus");
  expect_finding(check_gpus(machine), Severity::warning, "GPU", "shows no GPU");
}

TEST(GpuTest, missing_pcie_lanes_are_a_warning) {
  FixtureMachine machine("base");
  machine.set_text("/sys/bus/pci/devices/0000:9b:00.0/current_link_width", "8\n");
  expect_finding(check_gpus(machine), Severity::warning, "GPU 0000:9b:00.0",
                 "8 lanes where the device has 16");
}

TEST(PeerToPeerTest, a_machine_with_nothing_in_the_way_is_well) {
  FixtureMachine machine("base");
  expect_well(check_peer_to_peer(machine));
}

TEST(PeerToPeerTest, nvidia_fs_is_enough_by_itself) {
  FixtureMachine machine("base");
  machine.remove("/proc/driver/nvidia/params");
  machine.set_text("/proc/driver/nvidia-fs/version", "version: 2.24\n");
  const Findings findings = check_peer_to_peer(machine);
  expect_well(findings);
  EXPECT_NE(findings[0].seen.find("version: 2.24"), std::string::npos);
}

TEST(PeerToPeerTest, each_obstacle_is_named_with_its_cure) {
  const auto expect_blocked = [](FixtureMachine& machine, const char* seen, const char* fix) {
    const Finding finding =
        expect_finding(check_peer_to_peer(machine), Severity::note, "GPUDirect Storage", seen);
    EXPECT_NE(finding.fix.find(fix), std::string::npos) << finding.fix;
  };
  FixtureMachine closed("base");
  closed.set_text(kDriver, "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.86.15  x\n");
  expect_blocked(closed, "open kernel modules", "nvidia-open");
  FixtureMachine old_driver("base");
  old_driver.set_text(kDriver, "NVRM version: NVIDIA UNIX Open Kernel Module  550.54.15  x\n");
  expect_blocked(old_driver, "driver 565", "nvidia-open");
  FixtureMachine old_kernel("base");
  old_kernel.set_text("/proc/sys/kernel/osrelease", "5.15.0-100-generic\n");
  expect_blocked(old_kernel, "a kernel before 6.2", "uname -r");
  FixtureMachine no_config("base");
  no_config.set_text("/boot/config-6.8.0-45-generic", "# CONFIG_PCI_P2PDMA is not set\n");
  expect_blocked(no_config, "CONFIG_PCI_P2PDMA", "grep PCI_P2PDMA");
  FixtureMachine no_bar("base");
  no_bar.set_text("/proc/driver/nvidia/params", "RegistryDwords: \"\"\n");
  expect_blocked(no_bar, "map its memory", "RMForceStaticBar1=1");
  FixtureMachine multipath("base");
  multipath.set_text("/sys/module/nvme_core/parameters/multipath", "Y\n");
  expect_blocked(multipath, "NVMe multipath is on", "multipath=N");
  FixtureMachine iommu("base");
  iommu.set_text("/sys/kernel/iommu_groups/0/type", "DMA-FQ\n");
  expect_blocked(iommu, "the IOMMU is on", "iommu=pt");
}

TEST(PeerToPeerTest, kernel_6_10_is_newer_than_6_2) {
  FixtureMachine machine("base");
  machine.set_text("/proc/sys/kernel/osrelease", "6.10.3\n");
  expect_well(check_peer_to_peer(machine));
}

TEST(GpuDirectTest, plain_nvme_is_well) {
  FixtureMachine ext4("ext4");
  expect_well(check_gpu_direct(ext4, data_target(ext4)));
  FixtureMachine xfs("xfs");
  expect_well(check_gpu_direct(xfs, data_target(xfs)));
}

TEST(GpuDirectTest, nothing_is_said_without_a_gpu) {
  FixtureMachine machine("ext4");
  machine.remove("/proc/driver");
  EXPECT_TRUE(check_gpu_direct(machine, data_target(machine)).empty());
}

TEST(GpuDirectTest, each_obstacle_of_a_path_is_named) {
  const auto expect_blocked = [](FixtureMachine& machine, const char* seen) {
    expect_finding(check_gpu_direct(machine, data_target(machine)), Severity::note,
                   "/data: GPUDirect", seen);
  };
  FixtureMachine lustre("lustre");
  expect_blocked(lustre, "Lustre needs nvidia-fs");
  lustre.set_text("/proc/driver/nvidia-fs/version", "version: 2.24\n");
  expect_well(check_gpu_direct(lustre, data_target(lustre)));

  FixtureMachine btrfs("btrfs");
  expect_blocked(btrfs, "btrfs has no direct path");
  FixtureMachine raid("raid");
  expect_blocked(raid, "without md or device mapper");
  FixtureMachine fabrics("fabrics");
  expect_blocked(fabrics, "does not reach NVMe over fabrics");
  FixtureMachine journal("ext4");
  journal.add_mount_option("data=journal");
  expect_blocked(journal, "ext4 journals data");
  FixtureMachine blocked("ext4");
  blocked.set_text("/sys/kernel/iommu_groups/0/type", "DMA-FQ\n");
  expect_blocked(blocked, "neither nvidia-fs nor peer-to-peer");
  FixtureMachine sata("ext4");
  sata.set_link("/sys/dev/block/259:5", "../../devices/pci0000:00/ata1/block/sda");
  expect_blocked(sata, "not NVMe");
}

}  // namespace
}  // namespace stoker
