// Every kind of field, from every format that has it, and every way in which one can be wrong.
#include <gtest/gtest.h>

#include <numeric>

#include "dataset/loader_support.h"
#include "formats/arrays/npy.h"

namespace stoker::testing {
namespace {

std::string npy(Dtype dtype, std::vector<std::uint64_t> shape, std::string_view data) {
  const auto head = make_npy_head(dtype, shape);
  EXPECT_TRUE(head.ok());
  return text_of(*head) + std::string(data);
}

template <typename T>
std::string bytes_of_numbers(std::vector<T> numbers) {
  return text_of(std::as_bytes(std::span(numbers)));
}

/// One batch of all samples, in stored order.
class FieldsTest : public ::testing::Test {
 protected:
  void open_tar(std::vector<OwnedSample> samples) {
    for (std::size_t i = 0; i < samples.size(); ++i)
      if (samples[i].key.empty()) samples[i].key = "k" + std::to_string(i);
    write_tar(dir_.file("a.tar"), samples);
    open(dir_.file("a.tar"));
  }
  void open(const std::string& pattern) {
    const auto dataset = ShardDataset::open(pattern);
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    dataset_ = *dataset;
  }
  Result<std::unique_ptr<LoaderRun>> start(std::vector<FieldSpec> fields) {
    LoaderRunOptions options;
    options.datasets = {dataset_};
    options.order =
        *make_order({.shuffle = Shuffle::off, .sample_count = dataset_->sample_count()});
    options.cut = {.global_batch_size = dataset_->sample_count()};
    options.fields = std::move(fields);
    options.end_epoch = 3;
    return LoaderRun::start(std::move(options));
  }
  /// The second batch: the first one's memory is used again for it.
  Batch load(std::vector<FieldSpec> fields) {
    auto loader = start(std::move(fields));
    EXPECT_TRUE(loader.ok()) << loader.status().message();
    if (!loader.ok()) return {};
    EXPECT_EQ((*loader)->next().kind, Kind::batch);
    NextBatch next = (*loader)->next();
    EXPECT_EQ(next.kind, Kind::batch) << next.status.message();
    return std::move(next.batch);
  }
  /// Why there is no batch.
  std::string failure(std::vector<FieldSpec> fields) {
    auto loader = start(std::move(fields));
    std::string message(loader.status().message());
    if (loader.ok()) {
      const NextBatch next = (*loader)->next();
      EXPECT_EQ(next.kind, Kind::failed);
      message = next.status.message();
    }
    const std::size_t path = message.find(dir_.path());
    if (path != std::string::npos) message.erase(path, dir_.path().size() + 1);
    return message;
  }

  DatasetDir dir_;
  std::shared_ptr<const ShardDataset> dataset_;
};

OwnedSample one(std::string name, std::string bytes) {
  return {.key = {}, .fields = {{.name = std::move(name), .bytes = std::move(bytes)}}};
}

TEST_F(FieldsTest, all_fields_are_views_of_bytes) {
  open_tar({{.key = "a", .fields = {{"cls", "1"}, {"txt", "one"}}},
            {.key = "b", .fields = {{"txt", ""}, {"cls", "2"}}},
            {.key = "c", .fields = {{"cls", "3"}, {"json", "{}"}}}});
  const Batch batch = load({});
  ASSERT_EQ(batch.columns().size(), 3U);
  EXPECT_EQ(text_of(batch.find("cls")->views[1]), "2");
  EXPECT_EQ(text_of(batch.find("txt")->views[0]), "one");
  EXPECT_NE(batch.find("txt")->views[1].data(), nullptr);  // empty, but there
  EXPECT_EQ(batch.find("txt")->views[2].data(), nullptr);  // not there
  EXPECT_EQ(batch.find("json")->views[0].data(), nullptr);
  EXPECT_EQ(text_of(batch.find("json")->views[2]), "{}");
  EXPECT_EQ(batch.key(2), "c");
  EXPECT_EQ(batch.find("png"), nullptr);
}

TEST_F(FieldsTest, bytes_and_text_are_views_and_a_column_may_have_another_name) {
  open_tar({one("txt", "grün"), one("txt", "")});
  const Batch batch =
      load({{.name = "raw", .field = "txt"}, {.name = "txt", .kind = FieldKind::text}});
  EXPECT_EQ(text_of(batch.find("raw")->views[0]), "grün");
  EXPECT_FALSE(batch.find("raw")->is_text);
  EXPECT_TRUE(batch.find("txt")->is_text);
  EXPECT_EQ(batch.find("raw")->views[0].data(), batch.find("txt")->views[0].data());
}

TEST_F(FieldsTest, text_that_is_not_utf8_is_refused) {
  open_tar({one("txt", "fine"), one("txt", "\xff\xfe")});
  EXPECT_EQ(failure({{.name = "txt", .kind = FieldKind::text}}),
            "a.tar: sample 1 at byte 1024: key \"k1\": field \"txt\": it is not UTF-8");
}

TEST_F(FieldsTest, digits_become_integers) {
  open_tar(
      {one("cls", "7"), one("cls", " -12\n"), one("cls", "+3"), one("cls", "9223372036854775807")});
  const Batch batch = load({{.name = "cls", .kind = FieldKind::int64}});
  const Column& column = *batch.find("cls");
  EXPECT_EQ(column.layout, Column::Layout::array);
  EXPECT_EQ(column.dtype, Dtype::int64);
  EXPECT_EQ(column.shape.size(), 1U);
  EXPECT_EQ(column.shape[0], 4U);
  EXPECT_EQ(numbers_of<std::int64_t>(column), (std::vector<std::int64_t>{7, -12, 3, INT64_MAX}));
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(column.data.data()) % 64, 0U);
}

TEST_F(FieldsTest, what_is_no_integer_is_named) {
  for (const std::string text : {"seven", "", "1.5", "+-3", "0x10"}) {
    open_tar({one("cls", "1"), one("cls", text)});
    EXPECT_EQ(failure({{.name = "cls", .kind = FieldKind::int64}}),
              "a.tar: sample 1 at byte 1024: key \"k1\": field \"cls\": \"" + text +
                  "\" is not an integer; ask for " +
                  (text == "1.5" ? "float" : "str, or for bytes and decode them in map="));
  }
}

TEST_F(FieldsTest, an_integer_that_is_too_large_is_no_damage) {
  open_tar({one("cls", "9223372036854775808")});
  const auto loader = start({{.name = "cls", .kind = FieldKind::int64}});
  ASSERT_TRUE(loader.ok());
  const NextBatch next = (*loader)->next();
  EXPECT_EQ(next.status.code(), Code::invalid_argument);
  EXPECT_NE(next.status.message().find("does not fit in an int64: ask for np.uint64"),
            std::string::npos);
  const Batch batch = load({{.name = "cls", .kind = FieldKind::array, .dtype = Dtype::uint64}});
  EXPECT_EQ(numbers_of<std::uint64_t>(*batch.find("cls")),
            (std::vector<std::uint64_t>{std::uint64_t{1} << 63}));
}

TEST_F(FieldsTest, a_missing_field_is_no_damage_and_names_may_have_alternatives) {
  open_tar({one("jpg", "a"), one("png", "b"), one("jpeg", "c")});
  const auto loader = start({{.name = "jpg"}});
  ASSERT_TRUE(loader.ok());
  EXPECT_EQ((*loader)->next().status.code(), Code::invalid_argument);
  EXPECT_EQ(failure({{.name = "jpg"}}),
            "a.tar: sample 1 at byte 1024: key \"k1\": field \"jpg\": the sample has no such "
            "field; it has \"png\". A name may list alternatives, \"jpg;jpeg;png\"");
  const Batch batch = load({{.name = "jpg;jpeg;png"}, {.name = "image", .field = "png;jpeg;jpg"}});
  for (const char* name : {"jpg;jpeg;png", "image"}) {
    EXPECT_EQ(text_of(batch.find(name)->views[0]), "a");
    EXPECT_EQ(text_of(batch.find(name)->views[1]), "b");
    EXPECT_EQ(text_of(batch.find(name)->views[2]), "c");
  }
}

TEST_F(FieldsTest, one_number_becomes_any_dtype_that_holds_it) {
  open_tar({one("cls", "7"), one("cls", "200")});
  const Batch batch =
      load({{.name = "a", .kind = FieldKind::array, .field = "cls", .dtype = Dtype::uint8},
            {.name = "b", .kind = FieldKind::array, .field = "cls", .dtype = Dtype::float32}});
  EXPECT_EQ(batch.find("a")->shape.size(), 1U);
  EXPECT_EQ(numbers_of<std::uint8_t>(*batch.find("a")), (std::vector<std::uint8_t>{7, 200}));
  EXPECT_EQ(numbers_of<float>(*batch.find("b")), (std::vector<float>{7, 200}));
  EXPECT_NE(failure({{.name = "cls", .kind = FieldKind::array, .dtype = Dtype::int8}})
                .find("200 is out of range for int8"),
            std::string::npos);
}

TEST_F(FieldsTest, fields_may_stay_what_their_format_says) {
  open_tar({one("cls", "1"), one("cls", "2")});
  const Batch batch = load({{.name = "label", .kind = FieldKind::own, .field = "cls"}});
  const Column& column = *batch.find("label");
  ASSERT_EQ(column.fields.size(), 2U);
  EXPECT_EQ(column.fields[1].name, "cls");
  EXPECT_EQ(column.fields[1].type, FieldType::text);
  EXPECT_EQ(text_of(column.views[1]), "2");
}

TEST_F(FieldsTest, digits_become_real_numbers) {
  open_tar({one("w", "0.5"), one("w", "-1e3\n"), one("w", "7")});
  const Batch batch = load({{.name = "w", .kind = FieldKind::float64}});
  EXPECT_EQ(numbers_of<double>(*batch.find("w")), (std::vector<double>{0.5, -1000, 7}));
}

TEST_F(FieldsTest, json_values_are_found_by_path) {
  const std::string text = R"({"cls": 3, "box": {"x": [1.5, 2]}, "name": "a\u00e9\n"})";
  open_tar({one("json", text), one("json", text)});
  const auto json = [](std::string name, std::string path, JsonType type) {
    return FieldSpec{.name = std::move(name),
                     .kind = FieldKind::json,
                     .field = "json",
                     .json_path = std::move(path),
                     .json_type = type};
  };
  const Batch batch =
      load({json("cls", "cls", JsonType::int64), json("x", "box.x.0", JsonType::float64),
            json("y", "box.x.1", JsonType::float64), json("name", "name", JsonType::text)});
  EXPECT_EQ(numbers_of<std::int64_t>(*batch.find("cls")), (std::vector<std::int64_t>{3, 3}));
  EXPECT_EQ(numbers_of<double>(*batch.find("x")), (std::vector<double>{1.5, 1.5}));
  EXPECT_EQ(numbers_of<double>(*batch.find("y")), (std::vector<double>{2, 2}));
  EXPECT_EQ(text_of(batch.find("name")->views[1]), "a\u00e9\n");

  const std::string where = "a.tar: sample 0 at byte 0: key \"k0\": field \"json\": ";
  EXPECT_EQ(failure({json("n", "box.z", JsonType::int64)}),
            where + "its JSON has no \"box.z\" (at \"z\")");
  EXPECT_EQ(failure({json("n", "box.x.2", JsonType::int64)}),
            where + "its JSON has no \"box.x.2\" (at \"2\")");
  EXPECT_EQ(failure({json("n", "name", JsonType::int64)}),
            where + "its JSON value is string, not an integer of 64 bits");
  EXPECT_EQ(failure({json("n", "box.x.0", JsonType::int64)}),
            where + "its JSON value is a number, not an integer of 64 bits");
  EXPECT_EQ(failure({json("n", "cls", JsonType::text)}),
            where + "its JSON value is number, not text");
}

TEST_F(FieldsTest, a_damaged_document_is_named) {
  open_tar({one("json", "{\"cls\": 1, \"cls\": 2}")});
  const std::string message =
      failure({{.name = "json", .kind = FieldKind::json, .json_path = "cls"}});
  EXPECT_EQ(message.find("a.tar: sample 0 at byte 0: key \"k0\": field \"json\": its JSON"), 0U)
      << message;
}

TEST_F(FieldsTest, npy_arrays_are_stacked) {
  open_tar({one("npy", npy(Dtype::float32, {2, 3}, bytes_of_numbers<float>({1, 2, 3, 4, 5, 6}))),
            one("npy", npy(Dtype::float32, {2, 3}, bytes_of_numbers<float>({7, 8, 9, 0, 1, 2})))});
  const Batch batch = load({{.name = "x", .kind = FieldKind::array, .field = "npy"}});
  const Column& column = *batch.find("x");
  EXPECT_EQ(column.dtype, Dtype::float32);
  EXPECT_EQ(std::vector<std::uint64_t>(column.shape.begin(), column.shape.end()),
            (std::vector<std::uint64_t>{2, 2, 3}));
  EXPECT_EQ(numbers_of<float>(column), (std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2}));
  EXPECT_EQ(
      failure({{.name = "x", .kind = FieldKind::array, .field = "npy", .dtype = Dtype::int32}}),
      "column \"x\": a.tar: sample 0 at byte 0: key \"k0\": field \"npy\": it contains float32, "
      "but int32 was requested");
  EXPECT_EQ(failure({{.name = "y", .kind = FieldKind::array}}),
            "column \"y\": a.tar: sample 0 at byte 0: key \"k0\": field \"y\": the sample has no "
            "such field; it has \"npy\". A name may list alternatives, \"jpg;jpeg;png\"");
}

TEST_F(FieldsTest, another_shape_is_named_with_both) {
  open_tar({one("npy", npy(Dtype::uint8, {2}, "ab")), one("npy", npy(Dtype::uint8, {3}, "abc"))});
  EXPECT_EQ(
      failure({{.name = "npy", .kind = FieldKind::array}}),
      "a.tar: sample 1 at byte 1024: key \"k1\": field \"npy\": its shape is (3,), but that of "
      "the column is (2,): samples of several shapes need a ragged or a padded column");
}

TEST_F(FieldsTest, plain_elements_need_a_dtype_and_take_a_shape) {
  open_tar({one("bin", bytes_of_numbers<std::int16_t>({1, 2, 3, 4})),
            one("bin", bytes_of_numbers<std::int16_t>({5, 6, 7, 8}))});
  const Batch batch = load({{.name = "bin",
                             .kind = FieldKind::array,
                             .dtype = Dtype::int16,
                             .shape = std::vector<std::uint64_t>{2, 2}}});
  EXPECT_EQ(batch.find("bin")->shape.size(), 3U);
  EXPECT_EQ(numbers_of<std::int16_t>(*batch.find("bin")),
            (std::vector<std::int16_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(failure({{.name = "bin", .kind = FieldKind::array}}),
            "column \"bin\": a.tar: sample 0 at byte 0: key \"k0\": field \"bin\": its bytes have "
            "no element type: give the field a dtype");
  open_tar({one("bin", "abc")});
  EXPECT_EQ(
      failure({{.name = "bin",
                .kind = FieldKind::array,
                .dtype = Dtype::int16,
                .shape = std::vector<std::uint64_t>{2}}}),
      "a.tar: sample 0 at byte 0: key \"k0\": field \"bin\": its 3 bytes are not a whole "
      "number of int16; if they are an encoded file, such as an image, ask for bytes and decode "
      "them in map=");
}

TEST_F(FieldsTest, ragged_columns_have_values_and_offsets) {
  open_tar({one("npy", npy(Dtype::uint16, {2}, bytes_of_numbers<std::uint16_t>({1, 2}))),
            one("npy", npy(Dtype::uint16, {0}, "")),
            one("npy", npy(Dtype::uint16, {3}, bytes_of_numbers<std::uint16_t>({3, 4, 5})))});
  const Batch batch = load({{.name = "npy", .kind = FieldKind::ragged}});
  const Column& column = *batch.find("npy");
  EXPECT_EQ(column.layout, Column::Layout::ragged);
  EXPECT_EQ(numbers_of<std::uint16_t>(column), (std::vector<std::uint16_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(std::vector<std::uint64_t>(column.offsets.begin(), column.offsets.end()),
            (std::vector<std::uint64_t>{0, 2, 2, 5}));
  EXPECT_EQ(column.shape[0], 5U);
}

TEST_F(FieldsTest, padded_columns_have_lengths) {
  open_tar({one("npy", npy(Dtype::int32, {2}, bytes_of_numbers<std::int32_t>({1, 2}))),
            one("npy", npy(Dtype::int32, {3}, bytes_of_numbers<std::int32_t>({3, 4, 5})))});
  FieldSpec spec{.name = "npy", .kind = FieldKind::pad, .pad_length = 4, .pad_value = -100};
  const Batch batch = load({spec});
  const Column& column = *batch.find("npy");
  EXPECT_EQ(numbers_of<std::int32_t>(column),
            (std::vector<std::int32_t>{1, 2, -100, -100, 3, 4, 5, -100}));
  EXPECT_EQ(std::vector<std::uint64_t>(column.lengths.begin(), column.lengths.end()),
            (std::vector<std::uint64_t>{2, 3}));
  spec.pad_length = 2;
  EXPECT_EQ(failure({spec}),
            "a.tar: sample 1 at byte 1024: key \"k1\": field \"npy\": its length is "
            "3, more than the 2 to pad to");
  spec.pad_cut = true;
  EXPECT_EQ(numbers_of<std::int32_t>(*load({spec}).find("npy")),
            (std::vector<std::int32_t>{1, 2, 3, 4}));
  spec.pad_value = 0.5;
  EXPECT_EQ(failure({spec}),
            "column \"npy\": a.tar: sample 0 at byte 0: key \"k0\": field \"npy\": the padding 0.5 "
            "is not a valid int32");
}

TEST_F(FieldsTest, mds_columns_have_their_own_types) {
  const std::string directory = dir_.file("mds");
  std::filesystem::create_directories(directory);
  MemorySink sink;
  auto writer = MdsWriter::make({.columns = {{"label", "int"},
                                             {"score", "float32"},
                                             {"small", "uint8"},
                                             {"text", "str"},
                                             {"x", "ndarray:float32:2"}},
                                 .basename = "shard.00000.mds"},
                                sink);
  ASSERT_TRUE(writer.ok()) << writer.status().message();
  std::vector<OwnedSample> samples;
  for (std::int64_t i = 0; i < 3; ++i)
    samples.push_back(
        {.key = "",
         .fields = {
             {"label", bytes_of_numbers<std::int64_t>({i - 1}), FieldType::int64},
             {"score", bytes_of_numbers<float>({0.5F * static_cast<float>(i)}), FieldType::float32},
             {"small", std::string(1, static_cast<char>(200 + i)), FieldType::array, "|u1", {}},
             {"text", "t" + std::to_string(i), FieldType::text},
             {"x", bytes_of_numbers<float>({1, 2}), FieldType::array, "<f4", {2}}}});
  write_with(**writer, samples);
  const std::vector<MdsShard> shards = {(*writer)->shard()};
  write_file(directory + "/shard.00000.mds", sink.bytes);
  write_file(directory + "/index.json", bytes_of(format_mds_index(shards)));
  open(directory);
  const Batch batch = load({{.name = "label", .kind = FieldKind::int64},
                            {.name = "score", .kind = FieldKind::float64},
                            {.name = "small", .kind = FieldKind::int64},
                            {.name = "text", .kind = FieldKind::text},
                            {.name = "x", .kind = FieldKind::array}});
  EXPECT_EQ(numbers_of<std::int64_t>(*batch.find("label")), (std::vector<std::int64_t>{-1, 0, 1}));
  EXPECT_EQ(numbers_of<double>(*batch.find("score")), (std::vector<double>{0, 0.5, 1}));
  EXPECT_EQ(numbers_of<std::int64_t>(*batch.find("small")),
            (std::vector<std::int64_t>{200, 201, 202}));
  EXPECT_EQ(text_of(batch.find("text")->views[2]), "t2");
  EXPECT_EQ(numbers_of<float>(*batch.find("x")), (std::vector<float>{1, 2, 1, 2, 1, 2}));
  for (const char* name : {"label", "score", "small"}) {  // one number has no dimension
    const Batch array = load({{.name = name, .kind = FieldKind::array}});
    EXPECT_EQ(array.find(name)->shape.size(), 1U) << name;
  }
  const Batch narrow = load({{.name = "label", .kind = FieldKind::array, .dtype = Dtype::int32}});
  EXPECT_EQ(numbers_of<std::int32_t>(*narrow.find("label")), (std::vector<std::int32_t>{-1, 0, 1}));
  EXPECT_EQ(batch.key(1), "shard.00000/1");  // formats without keys are numbered

  EXPECT_NE(failure({{.name = "score", .kind = FieldKind::int64}})
                .find("key \"shard.00000/0\": field \"score\": it is a real number"),
            std::string::npos);
  EXPECT_NE(failure({{.name = "x", .kind = FieldKind::float64}})
                .find("field \"x\": it has 2 values, but one was requested"),
            std::string::npos);
  EXPECT_NE(failure({{.name = "label", .kind = FieldKind::text}})
                .find("it contains numbers, but text was requested"),
            std::string::npos);
}

TEST_F(FieldsTest, tfrecord_features_have_their_own_types_also_outside_the_record) {
  std::vector<OwnedSample> samples;
  for (std::int64_t i = 0; i < 3; ++i) {
    std::vector<std::int64_t> list(static_cast<std::size_t>(i) * 50);
    std::iota(list.begin(), list.end(), i);
    samples.push_back({.key = "",
                       .fields = {{"ids", bytes_of_numbers(list), FieldType::int64},
                                  {"label", bytes_of_numbers<std::int64_t>({i}), FieldType::int64},
                                  {"w", bytes_of_numbers<float>({1, static_cast<float>(i)}),
                                   FieldType::float32}}});
  }
  write_tfrecord(dir_.file("a.tfrecord"), samples);
  open(dir_.file("a.tfrecord"));
  const Batch batch = load({{.name = "label", .kind = FieldKind::int64},
                            {.name = "ids", .kind = FieldKind::ragged},
                            {.name = "w", .kind = FieldKind::array},
                            {.name = "raw", .field = "ids"}});
  EXPECT_EQ(numbers_of<std::int64_t>(*batch.find("label")), (std::vector<std::int64_t>{0, 1, 2}));
  EXPECT_EQ(numbers_of<float>(*batch.find("w")), (std::vector<float>{1, 0, 1, 1, 1, 2}));
  const std::vector<std::int64_t> ids = numbers_of<std::int64_t>(*batch.find("ids"));
  ASSERT_EQ(ids.size(), 150U);  // 1,200 bytes that were 150 in the records
  EXPECT_EQ(ids[0], 1);
  EXPECT_EQ(ids[149], 101);
  EXPECT_EQ(text_of(batch.find("raw")->views[2]), samples[2].fields[0].bytes);
}

TEST_F(FieldsTest, lists_without_a_shape_take_the_one_that_is_given) {
  std::vector<OwnedSample> samples;
  for (float i = 0; i < 3; ++i)
    samples.push_back(
        {.key = "",
         .fields = {{"one", bytes_of_numbers<float>({i}), FieldType::float32},
                    {"six", bytes_of_numbers<float>({i, 1, 2, 3, 4, 5}), FieldType::float32}}});
  write_tfrecord(dir_.file("a.tfrecord"), samples);
  open(dir_.file("a.tfrecord"));
  const Batch batch =
      load({{.name = "one", .kind = FieldKind::array, .shape = std::vector<std::uint64_t>{}},
            {.name = "six", .kind = FieldKind::array, .shape = std::vector<std::uint64_t>{2, 3}}});
  EXPECT_EQ(batch.find("one")->shape.size(), 1U);
  EXPECT_EQ(numbers_of<float>(*batch.find("one")), (std::vector<float>{0, 1, 2}));
  EXPECT_EQ(batch.find("six")->shape.size(), 3U);
  EXPECT_NE(
      failure({{.name = "six", .kind = FieldKind::array, .shape = std::vector<std::uint64_t>{7}}})
          .find("its shape is (6,), but that of the column is (7,)"),
      std::string::npos);
}

TEST_F(FieldsTest, sequences_of_tokens_are_samples_too) {
  const std::vector<std::size_t> lengths = {3, 5, 1};
  write_megatron(dir_.file("c"), lengths);
  open(dir_.file("c.idx"));
  const Batch batch = load({{.name = "tokens", .kind = FieldKind::pad, .pad_length = 5}});
  EXPECT_EQ(numbers_of<std::uint16_t>(*batch.find("tokens")),
            (std::vector<std::uint16_t>{0, 1, 2, 0, 0, 100, 101, 102, 103, 104, 200, 0, 0, 0, 0}));
}

TEST_F(FieldsTest, compressed_shards_give_the_same) {
  std::vector<OwnedSample> samples = make_samples(20);
  for (OwnedSample& sample : samples) sample.key.clear();
  write_mds(dir_.file("mds"), samples, 8, "zstd");
  open(dir_.file("mds"));
  const Batch batch = load({});
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(text_of(batch.find("jpg")->views[i]), samples[i].fields[1].bytes);
}

TEST(FieldSpecTest, columns_that_make_no_sense_are_refused) {
  const auto refused = [](std::vector<FieldSpec> fields) {
    const Status status = check_fields(fields);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    return std::string(status.message());
  };
  EXPECT_EQ(refused({{.name = ""}}), "column 0 has no name");
  EXPECT_EQ(refused({{.name = "a"}, {.name = "a"}}), "two columns have the name \"a\"");
  EXPECT_EQ(refused({{.name = "a", .dtype = Dtype::int8}}),
            "column \"a\": a dtype is for arrays, but this is bytes");
  EXPECT_EQ(refused({{.name = "a", .kind = FieldKind::pad}}),
            "column \"a\": a length to pad to is missing");
  EXPECT_EQ(refused({{.name = "a", .kind = FieldKind::ragged, .shape = {{1}}}}),
            "column \"a\": a shape is for arrays, but this is ragged");
  EXPECT_TRUE(check_fields({}).ok());
}

}  // namespace
}  // namespace stoker::testing
