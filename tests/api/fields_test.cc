#include "stoker/fields.h"

#include <gtest/gtest.h>

#include "api/shards.h"

namespace stoker {
namespace {

using testing::bytes_of;
using testing::Folder;
using testing::key_of;
using testing::must;
using testing::npy_of;

/// Four samples with a field of every type.
class FieldsTest : public ::testing::Test {
 protected:
  FieldsTest() {
    testing::Members members;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::string key = key_of(i);
      const auto number = static_cast<float>(i);
      members.emplace_back(key + ".cls", std::to_string(i));
      members.emplace_back(key + ".json",
                           R"({"w": 1.5, "flag": true, "name": "n)" + std::to_string(i) + "\"}");
      members.emplace_back(key + ".txt", "text " + std::to_string(i));
      members.emplace_back(key + ".weight", std::to_string(i) + ".5");
      members.emplace_back(key + ".yes", i % 2 == 0 ? "true" : "false");
      members.emplace_back(key + ".x.npy", npy_of("<f4", "(2,)", bytes_of<float>({number, 1})));
      const std::vector<std::int32_t> ids(i + 1, static_cast<std::int32_t>(i));
      members.emplace_back(key + ".ids.npy",
                           npy_of("<i4", "(" + std::to_string(i + 1) + ",)", bytes_of(ids)));
    }
    testing::write_file(folder_.file("a.tar"), testing::tar_of(members));
  }

  Batch load(std::vector<FieldSpec> fields, std::uint64_t seed = 0) {
    Loader loader = must(Loader::open({.data = {folder_.path()},
                                       .batch_size = 4,
                                       .shuffle = Shuffle::off,
                                       .seed = seed,
                                       .fields = std::move(fields)}));
    return std::move(*must(loader.next()));
  }

  Folder folder_;
};

template <typename T>
std::vector<T> values(const Batch& batch, std::string_view name) {
  const auto found = must(batch.values<T>(name));
  return {found.begin(), found.end()};
}

TEST_F(FieldsTest, columns_that_no_memory_could_hold_are_refused) {
  for (const int bits : {56, 60, 61, 62, 63}) {
    const auto loader = Loader::open(
        {.data = {folder_.path()},
         .batch_size = 8,
         .fields = {
             {.name = "ids.npy", .kind = FieldKind::pad, .pad_length = std::uint64_t{1} << bits}}});
    EXPECT_EQ(loader.status().code(), Code::invalid_argument) << bits;
  }
}

TEST_F(FieldsTest, every_kind_has_its_column) {
  const Batch batch = load({{"txt", FieldKind::text},
                            {"cls", FieldKind::int64},
                            {"weight", FieldKind::float64},
                            {"yes", FieldKind::boolean},
                            {"w", FieldKind::json, "json", "w", JsonType::float64},
                            {"name", FieldKind::json, "json", "name", JsonType::text},
                            {"x.npy", FieldKind::array},
                            {"ids", FieldKind::ragged, "ids.npy"},
                            {.name = "padded",
                             .kind = FieldKind::pad,
                             .field = "ids.npy",
                             .pad_length = 5,
                             .pad_value = -1},
                            {"raw", FieldKind::bytes, "cls"},
                            {"own", FieldKind::own, "json"}});
  EXPECT_EQ(batch.find("txt")->text(2), "text 2");
  EXPECT_TRUE(batch.find("txt")->is_text);
  EXPECT_EQ(values<std::int64_t>(batch, "cls"), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(values<double>(batch, "weight"), (std::vector<double>{0.5, 1.5, 2.5, 3.5}));
  EXPECT_EQ(values<bool>(batch, "yes"), (std::vector<bool>{true, false, true, false}));
  EXPECT_EQ(values<double>(batch, "w"), std::vector<double>(4, 1.5));
  EXPECT_EQ(batch.find("name")->text(3), "n3");
  EXPECT_EQ(values<float>(batch, "x.npy"), (std::vector<float>{0, 1, 1, 1, 2, 1, 3, 1}));
  EXPECT_EQ(must(batch.find("x.npy")->row<float>(2))[0], 2);
  const Column& ids = *batch.find("ids");
  EXPECT_EQ(must(ids.row<std::int32_t>(3)).size(), 4U);
  EXPECT_EQ(must(ids.row<std::int32_t>(3))[0], 3);
  EXPECT_EQ(must(ids.as<std::int32_t>()).size(), 10U);
  const Column& padded = *batch.find("padded");
  EXPECT_EQ(must(padded.row<std::int32_t>(1)).back(), -1);
  EXPECT_EQ(padded.lengths[1], 2U);
  EXPECT_EQ(batch.find("raw")->text(1), "1");
  EXPECT_EQ(batch.find("own")->fields[0].type, FieldType::json);
}

TEST_F(FieldsTest, without_fields_a_batch_has_all) {
  const Batch batch = load({});
  EXPECT_EQ(batch.columns().size(), 7U);
  EXPECT_EQ(batch.find("cls")->text(1), "1");
}

/// Two bytes: one of the field, and one at random.
class Draw final : public FieldDecoder {
 public:
  Draw() : FieldDecoder(Dtype::uint8, {2}) {}
  std::unique_ptr<FieldDecoder> clone() const override { return std::make_unique<Draw>(); }
  Status decode(const FieldView& field, const DecodeContext& context,
                std::span<std::byte> out) override {
    out[0] = field.bytes.back();
    out[1] = static_cast<std::byte>(context.random());
    return {};
  }
};

class Failing final : public FieldDecoder {
 public:
  Failing() : FieldDecoder(Dtype::uint8, {}) {}
  std::unique_ptr<FieldDecoder> clone() const override { return std::make_unique<Failing>(); }
  Status decode(const FieldView& /*field*/, const DecodeContext& /*context*/,
                std::span<std::byte> /*out*/) override {
    throw std::runtime_error("no room in my decoder");
  }
};

TEST_F(FieldsTest, a_decoder_of_the_program_depends_on_seed_and_position) {
  const std::vector<FieldSpec> fields = {{.name = "crop",
                                          .kind = FieldKind::decoded,
                                          .field = "txt",
                                          .decoder = std::make_shared<Draw>()}};
  const Batch one = load(fields, 1);
  const std::vector<std::uint8_t> first = values<std::uint8_t>(one, "crop");
  EXPECT_EQ(one.find("crop")->shape[1], 2U);
  EXPECT_EQ(first[2 * 3], '3');
  EXPECT_EQ(values<std::uint8_t>(load(fields, 1), "crop"), first);
  EXPECT_NE(values<std::uint8_t>(load(fields, 2), "crop"), first);
}

TEST_F(FieldsTest, a_decoder_without_a_clone_is_refused) {
  struct NoClone final : FieldDecoder {
    NoClone() : FieldDecoder(Dtype::uint8, {1}) {}
    std::unique_ptr<FieldDecoder> clone() const override { return nullptr; }
    Status decode(const FieldView&, const DecodeContext&, std::span<std::byte>) override {
      return {};
    }
  };
  const Status status = Loader::open({.data = {folder_.path()},
                                      .batch_size = 4,
                                      .fields = {{.name = "txt",
                                                  .kind = FieldKind::decoded,
                                                  .decoder = std::make_shared<NoClone>()}}})
                            .status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("clone()"), std::string_view::npos) << status.message();
}

TEST_F(FieldsTest, what_a_decoder_throws_fails_its_sample) {
  Loader loader = must(Loader::open(
      {.data = {folder_.path()},
       .batch_size = 4,
       .fields = {
           {.name = "txt", .kind = FieldKind::decoded, .decoder = std::make_shared<Failing>()}}}));
  const Status status = loader.next().status();
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("no room in my decoder"), std::string_view::npos);
  EXPECT_NE(status.message().find("txt"), std::string_view::npos) << status.message();
}

}  // namespace
}  // namespace stoker
