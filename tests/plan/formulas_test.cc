// Formulas that the worked examples do not reach, computed by hand.
#include <gtest/gtest.h>

#include <algorithm>

#include "plan/shown.h"
#include "stoker/plan.h"

namespace stoker::plan::testing {
namespace {

TEST(FormulasTest, read_video_clips) {
  // 64 GPUs take 4 clips each in half a second: 512 a second of 10 s at 6 Mb/s, 7.5 MB.
  const Result<Answer> clips = read({.gpus = 64,
                                     .batch = 4,
                                     .sample = Bytes{10 * 6 * kMB / 8},
                                     .step = Seconds{0.5},
                                     .request = Bytes{4 * kMB},
                                     .read_rate = BytesPerSecond{2 * kGB}});
  expect_shown(clips, "needed", kGB, "3.84");
  expect_shown(clips, "shard_reads_per_second", 1, "960");
  expect_shown(clips, "drives", 1, "2");
}

TEST(FormulasTest, raid_stripes) {
  const Result<Answer> array = raid({.drives = 8,
                                     .read_rate = BytesPerSecond{6.5 * kGB},
                                     .slowest_rate = BytesPerSecond{6 * kGB},
                                     .shared_rate = BytesPerSecond{40 * kGB},
                                     .stripe = Bytes{512 * 1024},
                                     .request = Bytes{1024 * 1024},
                                     .yearly_failures = Share{0.01}});
  expect_shown(array, "drives_rate", kGB, "48");
  expect_shown(array, "array_rate", kGB, "40");
  expect_shown(array, "full_stripe", 1, "4194304");
  expect_shown(array, "drives_per_request", 1, "2");
  expect_shown(array, "requests_at_once", 1, "4");
  expect_shown(array, "lost_in_a_year", kPercent, "7.7255");  // 1 - 0.99^8
}

TEST(FormulasTest, the_last_request_of_an_object_is_short_and_costs_as_much) {
  // Objects of 9 MiB in requests of 8 MiB take two requests each, not nine eighths.
  ObjectsInputs inputs = {.dataset = Bytes{9 * 0x1p20 * 1000},
                          .object = Bytes{9 * 0x1p20},
                          .request = Bytes{8 * 0x1p20},
                          .rate = BytesPerSecond{9 * 0x1p20 * 5000},
                          .epochs = 2,
                          .request_rate = BytesPerSecond{85 * kMB},
                          .prefix_gets = PerSecond{5500},
                          .get_price = Money{0.0004},
                          .put_price = Money{0.005},
                          .storage_price = Money{0.023} / Bytes{kGiB},
                          .transfer_price = Money{0.09} / Bytes{kGiB}};
  const Result<Answer> odd = objects(inputs);
  expect_shown(odd, "gets", 1, "4000");
  expect_shown(odd, "gets_per_second", 1, "10000");
  expect_shown(odd, "prefixes", 1, "2");
  expect_shown(odd, "get_cost", 1, "0.0016");
  expect_shown(odd, "put_cost", 1, "0.0050");
  expect_shown(odd, "transfer_cost", 1, "1.5820");  // 2 x 9,000 MiB, 17.578 GiB
}

TEST(FormulasTest, a_price_of_2_to_the_30_bytes_is_not_one_of_10_to_the_9) {
  const Result<Answer> stored =
      compute({.kind = "objects",
               .settings = {{.name = "dataset", .text = "20TB"},
                            {.name = "object", .text = "256MiB"}}});  // prices of the catalogue
  // 18,626.45 GiB at $0.023; 20,000 GB would cost $460.
  expect_shown(stored, "storage_cost_per_month", 1, "428.41");
}

TEST(FormulasTest, path_through_host_memory) {
  PathInputs inputs = {.lanes = 16,
                       .transfers = PerSecond{32e9},
                       .payload_bits = 128,
                       .frame_bits = 130,
                       .storage_rate = BytesPerSecond{100 * kGB},
                       .nic_rate = BytesPerSecond{40 * kGB}};
  const Result<Answer> way = path(inputs);
  expect_shown(way, "source_rate", kGB, "40");
  expect_shown(way, "direct_rate", kGB, "40");
  expect_shown(way, "unoverlapped_rate", kGB, "24.468");  // 1 / (1/40 + 1/63.015)
  EXPECT_TRUE(way->binds[0].starts_with("The NIC")) << way->binds[0];
  inputs.memory_rate = BytesPerSecond{20 * kGB};
  const Result<Answer> slow = path(inputs);
  expect_shown(slow, "bounce_rate", kGB, "10");
  expect_shown(slow, "unoverlapped_rate", kGB, "10");  // never faster than copies that overlap
  EXPECT_TRUE(slow->binds[0].starts_with("Host memory")) << slow->binds[0];
  const Result<Answer> slot =
      path({.transfers = PerSecond{32e9}, .payload_bits = 128, .frame_bits = 130});
  EXPECT_FALSE(slot->find<BytesPerSecond>("unoverlapped_rate")) << "no source is given";
}

TEST(FormulasTest, requests_metadata_and_tracking) {
  const Result<Answer> requests = iops({.rate = BytesPerSecond{1.3312 * kGB},
                                        .request = Bytes{130 * kKB},
                                        .latency = Seconds{1e-3},
                                        .read_iops = PerSecond{4000},
                                        .files = 14e6,
                                        .metadata_rate = PerSecond{50'000}});
  expect_shown(requests, "iops", 1, "10240");
  expect_shown(requests, "requests_at_once", 1, "10.24");
  expect_shown(requests, "drives", 1, "3");
  expect_shown(requests, "metadata_time", 1, "840");
  const Result<Answer> metrics = tracking({.runs = 1000,
                                           .metrics = 50,
                                           .steps = 100'000,
                                           .every = 10,
                                           .artifacts = 3,
                                           .artifact = Bytes{2 * kGB},
                                           .storage_price = Money{21} / Bytes{kTB}});
  expect_shown(metrics, "points", 1, "500000000");
  expect_shown(metrics, "metrics_size", kGB, "12");
  expect_shown(metrics, "total", kTB, "6.012");
  expect_shown(metrics, "storage_cost_per_month", 1, "126.252");
}

TEST(FormulasTest, checkpoint_sizes_by_precision_and_optimizer) {
  const auto each = [](const char* precision, const char* optimizer) {
    return *checkpoint({.parameters = 1e9, .precision = precision, .optimizer = optimizer})
                ->find<Bytes>("each");
  };
  EXPECT_EQ(each("bf16", "adam"), Bytes{14});  // 2, a copy of 4, two moments of 4
  EXPECT_EQ(each("fp32", "adam"), Bytes{12});  // no copy
  EXPECT_EQ(each("fp8", "adam"), Bytes{13});
  EXPECT_EQ(each("fp16", "momentum"), Bytes{10});
  EXPECT_EQ(each("bf16", "sgd"), Bytes{6});
  EXPECT_EQ(each("bf16", "none"), Bytes{2});  // the weights alone
}

TEST(FormulasTest, what_saves_cost_in_a_day) {
  // 512 GPUs at $3/h are $36,864 a day; a save of 20 s every 480 s of training loses 4 %.
  const Result<Answer> saves = checkpoint({.size = Bytes{200 * kGB},
                                           .write_rate = BytesPerSecond{10 * kGB},
                                           .links = 8,
                                           .link_rate = BytesPerSecond{50 * kGB},
                                           .interval = Seconds{480},
                                           .gpus = 512,
                                           .price = Money{3} / kHour});
  expect_shown(saves, "synchronous_loss", kPercent, "4.0000");
  expect_shown(saves, "synchronous_cost_per_day", 1, "1474.56");
  expect_shown(saves, "asynchronous_loss", kPercent, "0.1041");  // 0.5 / 480.5
  expect_shown(saves, "asynchronous_cost_per_day", 1, "38.36");
}

}  // namespace
}  // namespace stoker::plan::testing
