// A decoder from outside: what it draws at random depends on the epoch and the position alone.
#include "dataset/toys/toy_decoder.h"

#include <gtest/gtest.h>

#include <set>

#include "dataset/loader_support.h"

namespace stoker::testing {
namespace {

class ToyDecoderTest : public ::testing::Test {
 protected:
  LoaderRunOptions options() const {
    LoaderRunOptions options = data_.options(10);
    options.seed = 7;
    options.end_epoch = 2;
    options.fields = {{.name = "jpg", .kind = FieldKind::bytes},
                      {.name = "crop",
                       .kind = FieldKind::decoded,
                       .field = "jpg",
                       .decoder = make_toy_decoder()}};
    return options;
  }

  /// Checks each crop of a run; the cursor after `count` batches.
  static Cursor run(LoaderRunOptions options, std::size_t count = 1000) {
    Cursor cursor = options.cursor;
    const std::uint64_t seed = options.seed;
    const auto loader = start_loader(std::move(options));
    for (std::size_t done = 0; done < count; ++done) {
      const NextBatch next = loader->next();
      if (next.kind == Kind::end) break;
      EXPECT_EQ(next.kind, Kind::batch) << next.status.message();
      if (next.kind != Kind::batch) break;
      const Batch& batch = next.batch;
      const Column& crop = *batch.find("crop");
      EXPECT_EQ(crop.layout, Column::Layout::array);
      EXPECT_EQ(std::vector(crop.shape.begin(), crop.shape.end()),
                (std::vector<std::uint64_t>{batch.size(), 4}));
      for (std::size_t i = 0; i < batch.size(); ++i)
        EXPECT_EQ(text_of(crop.data.subspan(4 * i, 4)),
                  text_of(toy_crop(batch.find("jpg")->views[i], seed, batch.epoch(),
                                   batch.positions()[i])));
      cursor = batch.cursor();
    }
    return cursor;
  }

  const LoaderData data_{100, 30, /*image_bytes=*/4000};
};

TEST_F(ToyDecoderTest, knows_seed_epoch_and_position_on_every_rank) {
  EXPECT_EQ(run(options()).epoch, 1U);
  for (const std::uint32_t rank : {0U, 1U}) {
    LoaderRunOptions part = options();
    part.cut.rank = rank;
    part.cut.world_size = 2;
    part.threads = 3;
    EXPECT_EQ(run(std::move(part)).epoch, 1U);
  }
}

TEST_F(ToyDecoderTest, knows_them_after_a_resume) {
  LoaderRunOptions rest = options();
  rest.cursor = run(options(), 13);
  EXPECT_EQ(rest.cursor.position, 30U);
  EXPECT_EQ(run(std::move(rest)).position, 100U);
}

TEST(DecodeContextTest, every_bit_of_seed_epoch_and_position_changes_the_random_number) {
  std::set<std::uint64_t> numbers = {DecodeContext{}.random()};
  for (int bit = 0; bit < 64; ++bit) {
    const std::uint64_t word = std::uint64_t{1} << bit;
    numbers.insert(DecodeContext{.seed = word}.random());
    numbers.insert(DecodeContext{.epoch = word}.random());
    numbers.insert(DecodeContext{.position = word}.random());
  }
  EXPECT_EQ(numbers.size(), 1U + 3 * 64);
}

TEST_F(ToyDecoderTest, its_failure_names_the_field) {
  LoaderRunOptions failing = options();
  failing.fields[1].field = "cls";  // one digit or two
  const auto loader = start_loader(std::move(failing));
  const NextBatch next = loader->next();
  ASSERT_EQ(next.kind, Kind::failed);
  EXPECT_NE(std::string(next.status.message()).find("field \"cls\": it is too short"),
            std::string::npos)
      << next.status.message();
}

TEST_F(ToyDecoderTest, is_given_with_its_kind_or_not_at_all) {
  LoaderRunOptions without = options();
  without.fields[1].decoder = nullptr;
  EXPECT_EQ(LoaderRun::start(std::move(without)).status().code(), Code::invalid_argument);
  LoaderRunOptions with = options();
  with.fields[0].decoder = make_toy_decoder();
  EXPECT_EQ(LoaderRun::start(std::move(with)).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker::testing
