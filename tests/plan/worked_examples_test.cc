// The worked examples of docs/planning.md, to the digits that are shown there.
#include <gtest/gtest.h>

#include "plan/shown.h"
#include "stoker/plan.h"

namespace stoker::plan::testing {
namespace {

TEST(WorkedExamples, w1_images_text_and_tokens_in_time) {
  const Result<Answer> images =
      read({.gpus = 8, .batch = 256, .sample = Bytes{130 * kKB}, .step = Seconds{0.2}});
  expect_shown(images, "samples_per_second", 1, "10240");
  expect_shown(images, "needed", kGB, "1.3312");
  expect_shown(images, "file_operations_per_second", 1, "30720");
  expect_shown(read({.gpus = 512, .batch = 4, .sample = Bytes{8192}, .step = Seconds{2}}), "needed",
               1, "8388608");
  const Result<Answer> tokens =
      epoch({.samples = 1e12, .sample = Bytes{4}, .time = 30.0 * kDay, .gpus = 2000});
  expect_shown(tokens, "needed", kMB, "1.5432");
  expect_shown(tokens, "gpu_rate", 1, "771.6");
}

TEST(WorkedExamples, w2_a_checkpoint_of_70_billion_parameters) {
  CheckpointInputs inputs = {.parameters = 70e9,
                             .bytes_per_parameter = Bytes{2},
                             .drives = 8,
                             .write_rate = BytesPerSecond{6.5 * kGB},
                             .links = 8,
                             .link_rate = BytesPerSecond{55 * kGB},
                             .interval = Seconds{500}};
  const Result<Answer> weights = checkpoint(inputs);
  expect_shown(weights, "checkpoint", kGB, "140");
  expect_shown(weights, "write_time", 1, "2.6923");
  expect_shown(weights, "synchronous_loss", kPercent, "0.5356");
  expect_shown(weights, "stall", 1, "0.31818");
  expect_shown(weights, "asynchronous_loss", kPercent, "0.06360");
  inputs.bytes_per_parameter = Bytes{14};
  const Result<Answer> whole = checkpoint(inputs);
  expect_shown(whole, "checkpoint", kGB, "980");
  expect_shown(whole, "write_time", 1, "18.846");
  expect_shown(whole, "synchronous_loss", kPercent, "3.6323");
  expect_shown(whole, "stall", 1, "2.2273");
  expect_shown(whole, "asynchronous_loss", kPercent, "0.44348");
}

TEST(WorkedExamples, w2_an_asynchronous_save_that_takes_longer_than_the_interval) {
  const Result<Answer> slow = checkpoint({.size = Bytes{1400 * kGB},
                                          .write_rate = BytesPerSecond{2 * kGB},
                                          .links = 8,
                                          .link_rate = BytesPerSecond{55 * kGB},
                                          .interval = Seconds{500}});
  expect_shown(slow, "write_time", 1, "700");
  expect_shown(slow, "asynchronous_loss", kPercent, "28.895");
}

TEST(WorkedExamples, w3_the_best_interval) {
  const Result<Answer> best =
      interval({.save = Seconds{60}, .mtbf = Seconds{10800}, .restart = Seconds{300}});
  expect_shown(best, "young", 1, "1138.42");
  expect_shown(best, "daly", 1, "1098.77");
  expect_shown(best, "goodput_young", 1, "0.87360");
  expect_shown(best, "goodput_daly", 1, "0.87365");
}

TEST(WorkedExamples, w4_the_life_of_a_drive) {
  EnduranceInputs inputs = {.size = Bytes{140 * kGB},
                            .writes = 48 / kDay,
                            .tbw = Bytes{700 * kTB},
                            .capacity = Bytes{4 * kTB},
                            .write_amplification = 1.5,
                            .time = 90.0 * kDay};
  const Result<Answer> one = endurance(inputs);
  expect_shown(one, "written_per_day", kTB, "6.72");
  expect_shown(one, "used_after", kPercent, "86.4");
  expect_shown(one, "life", kDay.count(), "104.17");
  expect_shown(one, "nand_written", kTB, "907.2");
  expect_shown(one, "cycles", 1, "226.8");
  inputs.drives = 8;
  expect_shown(endurance(inputs), "life", kDay.count(), "833.3");
}

TEST(WorkedExamples, w5_the_write_cliff) {
  const Result<Answer> drive = cliff({.size = Bytes{140 * kGB},
                                      .cache = Bytes{50 * kGB},
                                      .fast_rate = BytesPerSecond{3 * kGB},
                                      .drain_rate = BytesPerSecond{0.6 * kGB},
                                      .slow_rate = BytesPerSecond{0.3 * kGB}});
  expect_shown(drive, "full_after", 1, "20.833");
  expect_shown(drive, "full_at", kGB, "62.5");
  expect_shown(drive, "time", 1, "279.17");
  expect_shown(drive, "average", kGB, "0.50149");
  expect_shown(drive, "refill", 1, "83.33");
  expect_shown(drive, "limit", kGB, "0.93333");
  expect_shown(drive, "limited_time", 1, "150");
}

TEST(WorkedExamples, w6_targets_and_a_clients_share) {
  const Result<Answer> reads =
      read({.gpus = 512, .batch = 100'000, .sample = Bytes{2}, .step = Seconds{1}});
  expect_shown(reads, "needed", kMB, "102.4");
  const Result<Answer> count = targets({.read_load = reads->find<BytesPerSecond>("needed"),
                                        .write_size = Bytes{2 * kTB},
                                        .write_time = Seconds{10},
                                        .target_rate = BytesPerSecond{4 * kGB},
                                        .dataset = Bytes{20 * kTB}});
  expect_shown(count, "writes", kGB, "200");
  expect_shown(count, "targets_for_writes", 1, "50");
  expect_shown(count, "targets_for_both", 1, "51");
  expect_shown(count, "targets", 1, "51");
  expect_shown(count, "epoch", 1, "195312.5");
  const Result<Answer> client =
      share({.targets = 40, .target_rate = BytesPerSecond{4 * kGB}, .clients = 100});
  expect_shown(client, "share", kGB, "1.6");
  expect_shown(client, "one_file_share", kGB, "0.04");
}

TEST(WorkedExamples, w7_memory_of_reading_ahead_and_tokens) {
  const Bytes decoded{3.0 * 224 * 224 * 4};
  expect_shown(prefetch({.depth = 4, .batch = 256, .decoded = decoded}), "total", 1, "616562688");
  expect_shown(prefetch({.depth = 4, .batch = 256, .decoded = decoded, .workers = 8}), "total", kGB,
               "4.9325");
  const auto tokens = [](double seconds) {
    return read({.gpus = 1, .batch = 2e6, .sample = Bytes{2}, .step = Seconds{seconds}});
  };
  expect_shown(tokens(3), "needed", kMB, "1.3333");
  expect_shown(tokens(1), "needed", kMB, "4");
}

TEST(WorkedExamples, w7_money) {
  const MoneyPerSecond three = Money{3} / kHour;
  expect_shown(stall({.gpus = 512, .price = three, .stall = Seconds{60}}), "cost_of_one", 1,
               "25.60");
  expect_shown(stall({.gpus = 512,
                      .price = three,
                      .stall = Seconds{60},
                      .stalls = 4 / kHour,
                      .time = 7.0 * kDay}),
               "cost", 1, "17203.20");
  expect_shown(stall({.price = Money{80'000} / kHour, .stall = Seconds{240}, .times = 48}), "cost",
               1, "256000");
  expect_shown(stall({.price = three, .busy = Share{0.80}, .busy_after = Share{0.95}}), "more_work",
               kPercent, "18.75");
}

TEST(WorkedExamples, w7_rules_sizes_and_links) {
  const BytesPerSecond drive{7 * kGB};
  const auto by_rule = [&](double tera) {
    return rule({.flops = FlopPerSecond{tera * 1e12}, .read_rate = drive});
  };
  expect_shown(by_rule(16'000), "rule_rate", kGB, "160");
  expect_shown(by_rule(16'000), "drives", 1, "23");
  expect_shown(by_rule(7'912), "rule_rate", kGB, "79.12");
  expect_shown(by_rule(7'912), "drives", 1, "12");
  const auto size = [](double bytes) {
    return checkpoint({.parameters = 175e9, .bytes_per_parameter = Bytes{bytes}});
  };
  expect_shown(size(2), "checkpoint", kGB, "350");
  expect_shown(size(4), "checkpoint", kGB, "700");
  expect_shown(size(14), "checkpoint", kGB, "2450");
  expect_shown(size(16), "checkpoint", kGB, "2800");
  const auto pcie = [](double lanes, double transfers) {
    return path({.lanes = lanes,
                 .transfers = PerSecond{transfers},
                 .payload_bits = 128,
                 .frame_bits = 130});
  };
  expect_shown(pcie(4, 16e9), "pcie_rate", kGB, "7.877");
  expect_shown(pcie(16, 32e9), "pcie_rate", kGB, "63.015");
  expect_shown(targets({.write_size = Bytes{50 * kTB},
                        .write_time = Seconds{45},
                        .target_rate = BytesPerSecond{4 * kGB}}),
               "writes", kGB, "1111");
}

TEST(WorkedExamples, w8_what_accelerators_of_mlperf_read) {
  const auto one = [](double batch, double sample, double step) {
    return read({.gpus = 1,
                 .batch = batch,
                 .sample = Bytes{sample},
                 .step = Seconds{step},
                 .fed = BytesPerSecond{1.5 * kGB}});
  };
  expect_shown(one(7, 146'600'628, 0.323), "needed", kGB, "3.1771");
  expect_shown(one(7, 146'600'628, 0.323), "busy", kPercent, "47.2");
  expect_shown(one(400, 114'660.07, 0.224), "needed", kMB, "204.75");
  expect_shown(one(1, 2'828'486, 0.0035), "needed", kMB, "808.14");
  expect_shown(one(1, 2'828'486, 0.0035), "busy", kPercent, "100");
}

TEST(WorkedExamples, figures_often_got_wrong_are_right_here) {
  expect_shown(read({.gpus = 512, .batch = 4, .sample = Bytes{8192}, .step = Seconds{2}}), "needed",
               kMB, "8.4");
  expect_shown(read({.gpus = 1, .batch = 2e6, .sample = Bytes{2}, .step = Seconds{3}}), "needed",
               kMB, "1.3333");
  EnduranceInputs drive = {.size = Bytes{140 * kGB}, .writes = 48 / kDay, .tbw = Bytes{700 * kTB}};
  const double host = endurance(drive)->find<Seconds>("life")->count();
  drive.write_amplification = 1.5;
  drive.time = 90.0 * kDay;
  EXPECT_EQ(endurance(drive)->find<Seconds>("life")->count(), host);
  expect_shown(endurance(drive), "used_after", kPercent, "86.4");
  CheckpointInputs save = {.size = Bytes{980 * kGB},
                           .write_rate = BytesPerSecond{52 * kGB},
                           .links = 8,
                           .link_rate = BytesPerSecond{55 * kGB},
                           .interval = Seconds{500}};
  expect_shown(checkpoint(save), "asynchronous_loss", kPercent, "0.44348");
  save.size = Bytes{1400 * kGB};
  save.write_rate = BytesPerSecond{2 * kGB};
  expect_shown(checkpoint(save), "asynchronous_loss", kPercent, "28.895");
  const ShareInputs clients = {
      .targets = 40, .target_rate = BytesPerSecond{4 * kGB}, .clients = 100};
  expect_shown(share(clients), "share", kGB, "1.6");
  expect_shown(share(clients), "one_file_share", kGB, "0.04");
}

}  // namespace
}  // namespace stoker::plan::testing
