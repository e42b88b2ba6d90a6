/// \file
/// What the tests of LoaderSetup share.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "dataset/loader/loader_setup.h"
#include "dataset/loader_support.h"

namespace stoker::testing {

using Items = std::vector<std::uint64_t>;

inline LoaderRequest wish_for(const std::shared_ptr<const ShardDataset>& dataset, Shuffle shuffle,
                              std::uint64_t batch) {
  return {.parts = {{.dataset = dataset}},
          .order = {.shuffle = shuffle, .seed = 7},
          .global_batch_size = batch,
          .threads = 2};
}

inline LoaderSetup make_setup(LoaderRequest request) {
  auto made = LoaderSetup::make(std::move(request));
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *std::move(made);
}

inline std::string refusal(LoaderRequest request) {
  const auto made = LoaderSetup::make(std::move(request));
  EXPECT_EQ(made.status().code(), Code::invalid_argument);
  return std::string(made.status().message());
}

inline LoaderRunOptions options_from(const LoaderSetup& setup, std::uint64_t epoch = 0,
                                     std::uint64_t position = 0) {
  auto options = setup.options_at(setup.cursor(epoch, position));
  EXPECT_TRUE(options.ok()) << options.status().message();
  return *std::move(options);
}

/// The samples of the first epoch.
inline std::vector<SampleRef> samples_of(const SampleOrder& order) {
  std::vector<SampleRef> refs(order.epoch_samples());
  order.fill(0, 0, refs);
  return refs;
}

}  // namespace stoker::testing
