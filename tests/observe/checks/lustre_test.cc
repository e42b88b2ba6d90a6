#include "observe/checks/lustre.h"

#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using testing::data_target;
using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

constexpr const char* kGetStripe = "lfs getstripe -d /data";
constexpr const char* kOldFiles =
    "lfs find /data --maxdepth 2 --type f --size +4G --stripe-count 1";

std::string plain_layout(const std::string& count, const std::string& size) {
  return "stripe_count:  " + count + " stripe_size:   " + size +
         " pattern:       raid0 stripe_offset: -1\n";
}

TEST(LustreParserTest, plain_and_progressive_layouts_are_read) {
  std::optional<LustreLayout> layout = parse_lustre_layout(plain_layout("-1", "1048576"));
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->stripe_count, LustreLayout::kAllTargets);
  EXPECT_EQ(layout->stripe_bytes, 1048576U);
  EXPECT_EQ(layout->component_count, 1U);
  layout = parse_lustre_layout(plain_layout("1", "4194304") + plain_layout("8", "4194304"));
  ASSERT_TRUE(layout);
  EXPECT_EQ(layout->stripe_count, 8);
  EXPECT_EQ(layout->component_count, 2U);
}

TEST(LustreParserTest, garbage_is_no_layout_and_no_target) {
  for (const char* bad :
       {"", "stripe_count:", "stripe_count: x", "stripe_count: 99999999999999999"})
    EXPECT_FALSE(parse_lustre_layout(bad)) << bad;
  for (const char* bad :
       {"", "[OST:1]", "a b c d e ]", "a b c d e [OST:]", "a b c d 9% /x[XYZ:1]", "a b c d e [O]"})
    EXPECT_TRUE(parse_lustre_targets(bad).empty()) << bad;
}

TEST(LustreParserTest, targets_are_read_with_their_fill) {
  const auto targets = parse_lustre_targets(
      "s-MDT0000_UUID 10 1 9 8% /s[MDT:0]\ns-OST000a_UUID 10 9 1 93% /s[OST:10]\n"
      "filesystem_summary: 10 9 1 50% /s\n");
  ASSERT_EQ(targets.size(), 2U);
  EXPECT_TRUE(targets[0].is_metadata);
  EXPECT_EQ(targets[1].index, 10U);
  EXPECT_EQ(targets[1].used_percent, 93U);
}

TEST(LustreLayoutTest, a_progressive_layout_is_well_for_every_role) {
  FixtureMachine machine("lustre");
  for (const Role role : {Role::both, Role::dataset, Role::checkpoint})
    expect_well(check_lustre_layout(machine, data_target(machine, role)));
}

TEST(LustreLayoutTest, one_stripe_is_a_warning_for_checkpoints_and_well_for_datasets) {
  FixtureMachine machine("lustre");
  machine.set_command(kGetStripe, plain_layout("1", "4194304"));
  const auto check = [&](Role role) {
    return check_lustre_layout(machine, data_target(machine, role));
  };
  Finding finding = expect_finding(check(Role::checkpoint), Severity::warning,
                                   "/data: Lustre layout", "1 stripes; 16 storage targets");
  EXPECT_NE(finding.fix.find("lfs setstripe -E 64M -c 1 -S 4M -E -1 -c 8 -S 4M /data"),
            std::string::npos)
      << finding.fix;
  finding =
      expect_finding(check(Role::both), Severity::warning, "/data: Lustre layout", "1 stripes");
  EXPECT_NE(finding.fix.find("lfs setstripe -E 1G -c 1 -S 4M -E -1 -c 8 -S 4M /data"),
            std::string::npos)
      << finding.fix;
  EXPECT_NE(finding.fix.find("stoker doctor --set-stripe /data"), std::string::npos);
  expect_well(check(Role::dataset));
}

TEST(LustreLayoutTest, every_file_over_all_targets_is_a_note_for_datasets) {
  FixtureMachine machine("lustre");
  machine.set_command(kGetStripe, plain_layout("-1", "4194304"));
  const auto check = [&](Role role) {
    return check_lustre_layout(machine, data_target(machine, role));
  };
  const Finding finding =
      expect_finding(check(Role::dataset), Severity::note, "/data: Lustre layout", "all stripes");
  EXPECT_NE(finding.fix.find("-E 1G -c 1 -S 4M -E -1 -c 4 -S 4M /data"), std::string::npos);
  expect_well(check(Role::checkpoint));
}

TEST(LustreLayoutTest, tiny_stripes_are_a_note) {
  FixtureMachine machine("lustre");
  machine.set_command(kGetStripe, plain_layout("8", "65536"));
  expect_finding(check_lustre_layout(machine, data_target(machine)), Severity::note,
                 "/data: Lustre layout", "64 KiB");
}

TEST(LustreLayoutTest, advice_never_asks_for_more_targets_than_there_are) {
  FixtureMachine machine("lustre");
  machine.set_command(kGetStripe, plain_layout("1", "4194304"));
  machine.set_command("lfs df /data", "a 1 1 1 9% /data[OST:0]\nb 1 1 1 9% /data[OST:1]\n");
  const Finding finding = expect_finding(check_lustre_layout(machine, data_target(machine)),
                                         Severity::warning, "/data: Lustre layout", "1 stripes");
  EXPECT_NE(finding.fix.find("-E -1 -c 2 "), std::string::npos) << finding.fix;
}

TEST(LustreLayoutTest, large_files_in_the_old_layout_are_to_be_migrated) {
  FixtureMachine machine("lustre");
  machine.set_command(kOldFiles, "/data/a.bin\n/data/b.bin\n");
  const Finding finding =
      expect_finding(check_lustre_layout(machine, data_target(machine)), Severity::note,
                     "/data: Lustre migrate", "2 files above 4 GiB");
  EXPECT_EQ(
      finding.fix,
      "lfs find /data --type f --size +4G --stripe-count 1 -0 | xargs -0 -n 1 lfs migrate -c 8 "
      "-S 4M");
}

TEST(LustreLayoutTest, a_missing_lfs_is_said) {
  FixtureMachine machine("lustre");
  machine.uninstall("lfs");
  expect_finding(check_lustre_layout(machine, data_target(machine)), Severity::note,
                 "/data: Lustre layout", "does not answer");
}

TEST(LustreLayoutTest, other_filesystems_are_not_asked) {
  FixtureMachine machine("ext4");
  EXPECT_TRUE(check_lustre_layout(machine, data_target(machine)).empty());
  EXPECT_TRUE(check_lustre_load(machine, data_target(machine)).empty());
  EXPECT_TRUE(machine.commands_run.empty());
}

TEST(SetStripeTest, the_command_follows_the_role) {
  FixtureMachine machine("lustre");
  const Result<std::vector<std::string>> argv =
      plan_set_stripe(machine, data_target(machine, Role::checkpoint));
  ASSERT_TRUE(argv.ok());
  EXPECT_EQ(format_command(*argv), "lfs setstripe -E 64M -c 1 -S 4M -E -1 -c 8 -S 4M /data");
}

TEST(SetStripeTest, anything_but_a_lustre_directory_is_misuse) {
  FixtureMachine ext4("ext4");
  const auto wrong = plan_set_stripe(ext4, data_target(ext4));
  EXPECT_EQ(wrong.status().code(), Code::invalid_argument);
  EXPECT_NE(wrong.status().message().find("/data is not a directory on Lustre"),
            std::string_view::npos);
  FixtureMachine lustre("lustre");
  const Result<Target> file = make_target(lustre, "/data/train-000000.tar", Role::both);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(plan_set_stripe(lustre, *file).status().code(), Code::invalid_argument);
}

TEST(SetStripeTest, a_path_with_a_blank_stays_one_word) {
  EXPECT_EQ(format_command({"lfs", "setstripe", "/my data"}), "lfs setstripe '/my data'");
}

TEST(LustreLoadTest, a_quiet_client_is_well) {
  FixtureMachine machine("lustre");
  expect_well(check_lustre_load(machine, data_target(machine)));
}

TEST(LustreLoadTest, a_full_target_is_a_warning) {
  FixtureMachine machine("lustre");
  machine.set_command("lfs df /data", "a 1 1 1 95% /data[MDT:1]\nb 1 1 1 93% /data[OST:7]\n");
  const Findings findings = check_lustre_load(machine, data_target(machine));
  Finding finding =
      expect_finding(findings, Severity::warning, "/data: Lustre targets", "OST 7 is 93 % full");
  EXPECT_NE(finding.fix.find("--ost 7"), std::string::npos);
  finding =
      expect_finding(findings, Severity::warning, "/data: Lustre targets", "MDT 1 is 95 % full");
  EXPECT_NE(finding.fix.find("stoker pack"), std::string::npos);
}

TEST(LustreLoadTest, slow_metadata_is_a_warning_with_advice_for_the_role) {
  FixtureMachine machine("lustre");
  machine.set_command("lctl get_param -n mdc.*.stats",
                      "req_waittime 2000 samples [usec] 4 9 20000000 1\n");
  const auto check = [&](Role role) {
    return check_lustre_load(machine, data_target(machine, role));
  };
  Finding finding = expect_finding(check(Role::dataset), Severity::warning,
                                   "/data: Lustre MDT load", "takes 10.0 ms");
  EXPECT_NE(finding.fix.find("stoker pack /data"), std::string::npos);
  finding =
      expect_finding(check(Role::checkpoint), Severity::warning, "/data: Lustre MDT load", "ms");
  EXPECT_NE(finding.fix.find("lfs setdirstripe -D -c -1 /data"), std::string::npos);
}

TEST(LustreLoadTest, lock_contention_is_a_warning) {
  FixtureMachine machine("lustre");
  machine.set_command("lctl get_param -n ldlm.services.ldlm_cbd.stats",
                      "ldlm_bl_callback 40000 samples [usec] 1 2 3 4\n");
  expect_finding(check_lustre_load(machine, data_target(machine)), Severity::warning,
                 "/data: Lustre locks", "40000 locks taken away by other clients during 90000");
}

TEST(LustreLoadTest, small_and_few_rpcs_are_notes) {
  FixtureMachine machine("lustre");
  machine.set_command("lctl get_param -n osc.*.max_pages_per_rpc", "1024\n256\n");
  machine.set_command("lctl get_param -n osc.*.max_rpcs_in_flight", "8\n16\n");
  const Findings findings = check_lustre_load(machine, data_target(machine));
  EXPECT_EQ(expect_finding(findings, Severity::note, "/data: Lustre I/O size", "at most 1 MiB").fix,
            "lctl set_param osc.*.max_pages_per_rpc=4M");
  EXPECT_EQ(expect_finding(findings, Severity::note, "/data: Lustre I/O depth", "8 RPCs").fix,
            "lctl set_param osc.*.max_rpcs_in_flight=16");
}

}  // namespace
}  // namespace stoker
