// The formula of goodput against a simulation, and the maximum against its neighbours.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "stoker/plan.h"

namespace stoker::plan {
namespace {

struct Job {
  double interval, stall, unseen, mtbf, restart;
};

/// Plays saves and failures: a save begins after each interval and its stall, and counts once it is
/// durable, `unseen` later. Returns kept work by time.
double simulate(const Job& job, int saves) {
  std::mt19937_64 random(7);
  std::exponential_distribution<double> wait(1 / job.mtbf);
  const double cycle = job.stall + std::max(job.interval, job.unseen);
  double time = 0, failure = wait(random);
  double since = 0;  // time since training continued from the last durable save
  bool in_flight = false;
  int durable = 0;
  while (durable < saves) {
    const double next = in_flight ? job.unseen : cycle - since;
    if (time + next < failure) {
      time += next;
      if (in_flight) {
        ++durable;  // the training has gone on meanwhile
        in_flight = false;
        since = job.unseen;
      } else {
        in_flight = true;
      }
      continue;
    }
    time = failure;
    do {
      failure = time + wait(random);
      time = std::min(time + job.restart, failure);
    } while (time == failure);
    since = 0;
    in_flight = false;
  }
  return durable * job.interval / time;
}

TEST(IntervalTest, goodput_is_what_a_simulation_of_failures_keeps) {
  for (const Job& job : {Job{1000, 60, 0, 10800, 300}, Job{1500, 5, 400, 9000, 200},
                         Job{3000, 30, 2000, 7000, 600}}) {
    const Result<Answer> answer = interval({.save = Seconds{job.stall + job.unseen},
                                            .blocked = Seconds{job.stall},
                                            .mtbf = Seconds{job.mtbf},
                                            .restart = Seconds{job.restart},
                                            .interval = Seconds{job.interval}});
    ASSERT_TRUE(answer.ok()) << answer.status().message();
    const double told = answer->find<Share>("goodput_own")->of_one;
    EXPECT_NEAR(simulate(job, 300'000), told, 0.003 * told);
  }
}

TEST(IntervalTest, the_best_interval_is_better_than_its_neighbours_and_than_young) {
  for (const double stall : {0.01, 1.0, 60.0, 3000.0}) {
    IntervalInputs inputs{.save = Seconds{stall}, .mtbf = Seconds{10800}};
    const Seconds best = *interval(inputs)->find<Seconds>("best");
    const auto goodput = [&](Seconds at) {
      inputs.interval = at;
      return interval(inputs)->find<Share>("goodput_own")->of_one;
    };
    EXPECT_GE(goodput(best), goodput(best * 1.01)) << stall;
    EXPECT_GE(goodput(best), goodput(best * 0.99)) << stall;
    const Result<Answer> answer = interval(inputs);
    EXPECT_GE(answer->find<Share>("goodput_best")->of_one,
              answer->find<Share>("goodput_young")->of_one);
  }
}

TEST(IntervalTest, the_best_interval_is_found_where_no_goodput_is_left) {
  const auto best = [](double save, double mtbf, double restart) {
    return interval({.save = Seconds{save}, .mtbf = Seconds{mtbf}, .restart = Seconds{restart}})
        ->find<Seconds>("best")
        ->count();
  };
  // A restart moves no maximum, also one of which no number of 64 bits is left.
  EXPECT_NEAR(best(60, 3600, 1e9), best(60, 3600, 0), 1e-3);
  // If failures come much faster than saves, the maximum is at their distance.
  EXPECT_NEAR(best(1e12, 10, 0), 10, 1e-3);
}

TEST(IntervalTest, saves_in_the_background_do_not_begin_before_the_last_one_is_durable) {
  const Result<Answer> answer =
      interval({.save = Seconds{2000}, .blocked = Seconds{0.1}, .mtbf = Seconds{10800}});
  EXPECT_NEAR(answer->find<Seconds>("best")->count(), 1999.9, 0.2);
  EXPECT_NE(answer->binds[0].find("durable before the next one"), std::string::npos);
}

TEST(IntervalTest, steps_and_money_follow_from_the_best) {
  const Result<Answer> answer = interval({.save = Seconds{60},
                                          .mtbf = Seconds{10800},
                                          .gpus = 512,
                                          .interval = Seconds{7200},
                                          .step = Seconds{2},
                                          .price = Money{3} / kHour});
  EXPECT_EQ(*answer->find<double>("every_steps"), 549);
  const double gain = answer->find<Share>("gain")->of_one;
  EXPECT_NEAR(answer->find<Money>("gain_per_day")->count(), 512 * 3 * 24 * gain, 1e-6);
  EXPECT_GT(gain, 0.1);
}

}  // namespace
}  // namespace stoker::plan
