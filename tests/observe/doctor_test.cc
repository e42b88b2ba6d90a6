#include "observe/doctor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "observe/fixture_machine.h"
#include "observe/render_findings.h"

namespace stoker {
namespace {

using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

constexpr std::array kFixtures{"ext4",    "xfs",       "zfs",  "btrfs",       "tmpfs",
                               "nfs",     "lustre",    "gpfs", "beegfs",      "weka",
                               "cephfs",  "ceph_fuse", "fuse", "object_fuse", "overlay",
                               "unknown", "fabrics",   "raid"};

Findings examine_data(FixtureMachine& machine) {
  const Result<Findings> findings = examine(machine, {.paths = {"/data"}, .stop = {}});
  EXPECT_TRUE(findings.ok()) << findings.status().message();
  return findings.ok() ? *findings : Findings{};
}

TEST(DoctorTest, a_healthy_node_has_nothing_but_ok_and_every_check_speaks) {
  FixtureMachine machine("ext4");
  const Findings findings = examine_data(machine);
  expect_well(findings);
  for (const char* subject : {"io_uring",
                              "locked memory",
                              "open files",
                              "/dev/shm",
                              "dirty pages",
                              "huge pages",
                              "NUMA",
                              "pressure",
                              "NVMe nvme0",
                              "NVMe-oF",
                              "GPU 0000:1b:00.0",
                              "GPUDirect Storage",
                              "/data: filesystem",
                              "/data: mount options",
                              "/data: read-ahead",
                              "/data: disk nvme1n1",
                              "/data: space",
                              "/data: inodes",
                              "/data: files",
                              "/data: GPUDirect"})
    EXPECT_TRUE(std::any_of(findings.begin(), findings.end(), [&](const Finding& finding) {
      return finding.subject == subject;
    })) << subject;
}

TEST(DoctorTest, what_belongs_to_one_filesystem_speaks_there) {
  const auto speaks = [](const char* fixture, const char* subject) {
    FixtureMachine machine(fixture);
    const Findings findings = examine_data(machine);
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.subject == subject; });
  };
  EXPECT_TRUE(speaks("lustre", "/data: Lustre layout"));
  EXPECT_TRUE(speaks("lustre", "/data: Lustre load"));
  EXPECT_TRUE(speaks("zfs", "/data: ZFS"));
  EXPECT_TRUE(speaks("nfs", "/data: read-ahead"));
}

TEST(DoctorTest, a_container_with_default_settings_is_told_all_of_it) {
  FixtureMachine machine("container");
  const Result<Findings> findings = examine(machine, {.paths = {"/workspace"}, .stop = {}});
  ASSERT_TRUE(findings.ok()) << findings.status().message();
  expect_finding(*findings, Severity::warning, "io_uring", "not usable");
  expect_finding(*findings, Severity::warning, "locked memory", "8 MiB");
  expect_finding(*findings, Severity::warning, "open files", "1024");
  expect_finding(*findings, Severity::warning, "/dev/shm", "64 MiB");
  expect_finding(*findings, Severity::warning, "/workspace: filesystem", "overlay");
}

TEST(DoctorTest, each_path_is_examined_and_the_machine_once) {
  FixtureMachine machine("ext4");
  const Result<Findings> findings =
      examine(machine, {.paths = {"/data", "/data/train-000000.tar"}, .stop = {}});
  ASSERT_TRUE(findings.ok());
  const auto count = [&](std::string_view subject) {
    return std::count_if(findings->begin(), findings->end(),
                         [&](const Finding& finding) { return finding.subject == subject; });
  };
  EXPECT_EQ(count("io_uring"), 1);
  EXPECT_EQ(count("/data: filesystem"), 1);
  EXPECT_EQ(count("/data/train-000000.tar: filesystem"), 1);
}

TEST(DoctorTest, every_finding_that_is_not_ok_has_a_reason_and_a_fix) {
  for (const char* fixture : kFixtures) {
    SCOPED_TRACE(fixture);
    FixtureMachine machine(fixture);
    for (const Finding& finding : examine_data(machine)) {
      EXPECT_FALSE(finding.subject.empty());
      EXPECT_FALSE(finding.seen.empty()) << finding.subject;
      EXPECT_EQ(finding.why.empty(), finding.severity == Severity::ok) << finding.subject;
      EXPECT_EQ(finding.fix.empty(), finding.severity == Severity::ok) << finding.subject;
    }
  }
}

TEST(DoctorTest, a_path_that_is_not_there_is_one_clear_line) {
  FixtureMachine machine("ext4");
  const Result<Findings> findings = examine(machine, {.paths = {"/data", "/dta"}, .stop = {}});
  EXPECT_EQ(findings.status().code(), Code::not_found);
  EXPECT_EQ(findings.status().message(),
            "/dta: no such file or directory; check the spelling, or mount the filesystem first");
  EXPECT_TRUE(machine.commands_run.empty()) << "paths are looked at before anything else";
}

TEST(DoctorTest, a_path_that_cannot_be_read_is_one_clear_line) {
  for (const char* path : {"/data", "/data/train-000000.tar"}) {
    SCOPED_TRACE(path);
    FixtureMachine machine("ext4");
    machine.deny(path);
    const Result<Findings> findings = examine(machine, {.paths = {path}, .stop = {}});
    EXPECT_EQ(findings.status().code(), Code::denied);
    EXPECT_NE(findings.status().message().find("run as a user with access, or with sudo"),
              std::string_view::npos);
    EXPECT_EQ(findings.status().message().find('\n'), std::string_view::npos);
  }
}

TEST(DoctorTest, an_interrupt_ends_it) {
  FixtureMachine machine("ext4");
  std::stop_source source;
  source.request_stop();
  EXPECT_EQ(examine(machine, {.paths = {"/data"}, .stop = source.get_token()}).status().code(),
            Code::cancelled);
}

TEST(DoctorTest, a_machine_that_shows_nothing_is_survived) {
  FixtureMachine machine("ext4");
  machine.remove("/proc").remove("/sys").remove("/boot");
  machine.uninstall("nvme");
  const Findings findings = examine_data(machine);
  EXPECT_FALSE(findings.empty());
  expect_finding(findings, Severity::note, "dirty pages", "cannot be read");
}

// Every file the doctor reads is replaced by rubbish of each kind in turn, on every fixture.
TEST(DoctorTest, garbage_in_any_file_or_command_is_survived) {
  const std::vector<std::string> rubbish{"",
                                         "\n",
                                         std::string(1 << 16, '9'),
                                         std::string("\0\xff\x1b[31m\n[", 8),
                                         "-1",
                                         "[",
                                         "]",
                                         "some avg60=",
                                         "avg60=nan",
                                         "0:0 - - -",
                                         "{\"critical_warning\": {\"value\": [1]}}",
                                         "stripe_count: -1 stripe_size: -1",
                                         "18446744073709551615"};
  for (const char* fixture : kFixtures) {
    SCOPED_TRACE(fixture);
    const FixtureMachine healthy(fixture);
    for (const std::string& text : rubbish) {
      FixtureMachine machine = healthy;
      machine.fill_with(text);
      const Result<Findings> findings = examine(machine, {.paths = {"/data"}, .stop = {}});
      ASSERT_TRUE(findings.ok()) << findings.status().message();
      EXPECT_FALSE(render_text(*findings, {}).empty());
      EXPECT_TRUE(nlohmann::json::accept(render_json(*findings)));
    }
  }
}

}  // namespace
}  // namespace stoker
