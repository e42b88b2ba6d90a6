#include <fmt/format.h>
#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

constexpr const char* kSmart = "nvme smart-log /dev/nvme0 --output-format=json";

Findings with_log(const std::string& log) {
  FixtureMachine machine("base");
  machine.set_command(kSmart, log);
  return check_nvme_health(machine);
}

TEST(NvmeHealthTest, young_drives_are_well_and_each_is_told) {
  FixtureMachine machine("base");
  const Findings findings = check_nvme_health(machine);
  expect_well(findings);
  EXPECT_EQ(findings.size(), 2U);
}

TEST(NvmeHealthTest, a_machine_without_drives_is_well) {
  FixtureMachine machine("base");
  machine.remove("/sys/class/nvme");
  expect_well(check_nvme_health(machine));
}

TEST(NvmeHealthTest, a_critical_warning_is_a_problem_in_either_form) {
  expect_finding(with_log(R"({"critical_warning": 4})"), Severity::problem, "NVMe nvme0",
                 "critical warning 0x4");
  expect_finding(with_log(R"({"critical_warning": {"value": 9, "available_spare": 1}})"),
                 Severity::problem, "NVMe nvme0", "critical warning 0x9");
}

TEST(NvmeHealthTest, spent_spare_blocks_are_a_problem) {
  expect_finding(with_log(R"({"critical_warning": 0, "avail_spare": 5, "spare_thresh": 10})"),
                 Severity::problem, "NVMe nvme0", "5 % of the spare blocks");
}

TEST(NvmeHealthTest, media_errors_are_a_problem) {
  expect_finding(with_log(R"({"critical_warning": 0, "media_errors": "3"})"), Severity::problem,
                 "NVMe nvme0", "3 unrecovered media errors");
}

TEST(NvmeHealthTest, used_endurance_is_a_warning_and_then_a_problem) {
  const Finding worn = expect_finding(with_log(R"({"critical_warning": 0, "percent_used": 85})"),
                                      Severity::warning, "NVMe nvme0", "85 % of the rated");
  EXPECT_NE(worn.fix.find("nvme smart-log -H /dev/nvme0"), std::string::npos);
  expect_finding(with_log(R"({"critical_warning": 0, "percentage_used": 104})"), Severity::problem,
                 "NVMe nvme0", "104 % of the rated");
}

TEST(NvmeHealthTest, a_hot_drive_is_a_warning) {
  expect_finding(with_log(R"({"critical_warning": 0, "temperature": 351})"), Severity::warning,
                 "NVMe nvme0", "78 °C");
}

TEST(NvmeHealthTest, an_unreadable_log_says_what_to_do) {
  FixtureMachine machine("base");
  for (const char* garbage : {"", "{", "[]", "null", "{\"a\": 1}", "\xff\xfe"}) {
    machine.set_command(kSmart, garbage);
    EXPECT_EQ(
        expect_finding(check_nvme_health(machine), Severity::note, "NVMe nvme0", "cannot be read")
            .fix,
        "sudo stoker doctor");
  }
  machine.root = true;
  EXPECT_EQ(
      expect_finding(check_nvme_health(machine), Severity::note, "NVMe nvme0", "cannot be read")
          .fix,
      "nvme smart-log /dev/nvme0");
  machine.uninstall("nvme");
  const Finding finding =
      expect_finding(check_nvme_health(machine), Severity::note, "NVMe nvme0", "needs nvme-cli");
  EXPECT_NE(finding.fix.find("apt-get install nvme-cli"), std::string::npos);
}

TEST(NvmeHealthTest, a_controller_that_is_not_live_is_a_problem) {
  FixtureMachine machine("base");
  machine.set_text("/sys/class/nvme/nvme1/state", "resetting\n");
  expect_finding(check_nvme_health(machine), Severity::problem, "NVMe nvme1", "resetting");
}

TEST(NvmeHealthTest, missing_pcie_lanes_are_a_warning) {
  FixtureMachine machine("base");
  machine.set_text("/sys/bus/pci/devices/0000:01:00.0/current_link_width", "2\n");
  const Finding finding = expect_finding(check_nvme_health(machine), Severity::warning,
                                         "NVMe nvme0", "2 lanes where the device has 4");
  EXPECT_NE(finding.why.find("50 %"), std::string::npos);
  EXPECT_NE(finding.fix.find("lspci -vvs 0000:01:00.0"), std::string::npos);
}

TEST(NvmeFabricsTest, no_fabric_and_two_good_paths_are_well) {
  FixtureMachine local("base");
  expect_well(check_nvme_fabrics(local));
  FixtureMachine machine("fabrics");
  expect_well(check_nvme_fabrics(machine));
}

TEST(NvmeFabricsTest, waiting_for_ever_is_a_warning) {
  FixtureMachine machine("fabrics");
  machine.set_text("/sys/class/nvme/nvme2/ctrl_loss_tmo", "off\n");
  EXPECT_EQ(expect_finding(check_nvme_fabrics(machine), Severity::warning, "NVMe-oF nvme2",
                           "ctrl_loss_tmo is off")
                .fix,
            "echo 600 > /sys/class/nvme/nvme2/ctrl_loss_tmo");
}

TEST(NvmeFabricsTest, reads_that_hang_on_a_broken_path_are_a_warning) {
  for (const char* value : {"off\n", "600\n"}) {
    FixtureMachine machine("fabrics");
    machine.set_text("/sys/class/nvme/nvme3/fast_io_fail_tmo", value);
    EXPECT_EQ(expect_finding(check_nvme_fabrics(machine), Severity::warning, "NVMe-oF nvme3",
                             "fast_io_fail_tmo is")
                  .fix,
              "echo 5 > /sys/class/nvme/nvme3/fast_io_fail_tmo");
  }
}

TEST(NvmeFabricsTest, a_lost_connection_is_a_problem) {
  FixtureMachine machine("fabrics");
  machine.set_text("/sys/class/nvme/nvme2/state", "connecting\n");
  expect_finding(check_nvme_fabrics(machine), Severity::problem, "NVMe-oF nvme2", "connecting");
}

TEST(NvmeFabricsTest, a_single_path_is_a_note) {
  FixtureMachine machine("fabrics");
  machine.remove("/sys/class/nvme/nvme3");
  EXPECT_EQ(
      expect_finding(check_nvme_fabrics(machine), Severity::note, "NVMe-oF multipath", "1 path to")
          .fix,
      "nvme connect -t tcp -a SECOND_ADDRESS -n nqn.2024-01.org.example:train");
}

TEST(NvmeFabricsTest, two_paths_without_multipath_are_a_warning) {
  FixtureMachine machine("fabrics");
  machine.set_text("/sys/module/nvme_core/parameters/multipath", "N\n");
  const Finding finding = expect_finding(check_nvme_fabrics(machine), Severity::warning,
                                         "NVMe-oF multipath", "2 paths");
  EXPECT_NE(finding.fix.find("options nvme_core multipath=Y"), std::string::npos);
}

TEST(NvmeFabricsTest, the_numa_policy_is_a_note) {
  FixtureMachine machine("fabrics");
  machine.set_text("/sys/class/nvme-subsystem/nvme-subsys2/iopolicy", "numa\n");
  EXPECT_EQ(expect_finding(check_nvme_fabrics(machine), Severity::note, "NVMe-oF nvme-subsys2",
                           "iopolicy is numa")
                .fix,
            "echo round-robin > /sys/class/nvme-subsystem/nvme-subsys2/iopolicy");
}

}  // namespace
}  // namespace stoker
