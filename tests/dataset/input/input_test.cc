#include "dataset/input/input.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "dataset/pack/pack_paths.h"
#include "dataset/pack_support.h"
#include "formats/arrays/npy.h"
#include "formats/arrays/raw_array.h"

namespace stoker::testing {
namespace {

struct Read {
  std::string key;
  Fields fields;
  std::map<std::string, FieldType> types;
};

std::vector<Read> read_source(const PackInput& source) {
  std::vector<Read> all;
  for (std::uint64_t i = 0; i < source.sample_count(); ++i) {
    InputSample sample;
    const Status status = source.read(i, sample);
    EXPECT_TRUE(status.ok()) << status.message();
    Read read;
    read.key = sample.view.key;
    for (const FieldView& field : sample.view.fields) {
      read.fields[std::string(field.name)] = text_of(field.bytes);
      read.types[std::string(field.name)] = field.type;
    }
    all.push_back(std::move(read));
  }
  return all;
}

Status open_fails(const std::string& path, const PackInputOptions& options = {}) {
  return open_input(path, options).status();
}

TEST(PackInputTest, class_directories_become_numbers_in_bytewise_order) {
  const PackDir dir;
  write_text(dir.file("b/x.jpg"), "1");
  write_text(dir.file("a/y.PNG"), "2");
  write_text(dir.file("Z/z.jpeg"), "3");
  const auto source = open_source(dir.path());
  ASSERT_TRUE(source);
  const auto all = read_source(*source);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].key, "Z/z");
  EXPECT_EQ(all[0].fields, (Fields{{"jpeg", "3"}, {"cls", int64_bytes(0)}}));
  EXPECT_EQ(all[1].fields, (Fields{{"png", "2"}, {"cls", int64_bytes(1)}}));
  EXPECT_EQ(all[2].fields, (Fields{{"jpg", "1"}, {"cls", int64_bytes(2)}}));
  ASSERT_EQ(source->extra_files().size(), 1U);
  EXPECT_EQ(source->extra_files()[0].first, "classes.json");
  EXPECT_EQ(source->extra_files()[0].second, "{\n \"Z\": 0,\n \"a\": 1,\n \"b\": 2\n}\n");
}

TEST(PackInputTest, stray_files_do_not_cost_the_labels) {
  const PackDir dir;
  write_text(dir.file("a/x.jpg"), "1");
  write_text(dir.file("a/y.jpg"), "2");
  write_text(dir.file("b/z.png"), "3");
  write_text(dir.file("a/Thumbs.db"), "stray");
  write_text(dir.file("README.md"), "stray");
  for (const std::string kind : {"", "classes"}) {
    SCOPED_TRACE(kind);
    const auto source = open_source(dir.path(), {.kind = kind});
    ASSERT_TRUE(source);
    const auto all = read_source(*source);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[2].fields, (Fields{{"png", "3"}, {"cls", int64_bytes(1)}}));
    EXPECT_EQ(source->extra_files().size(), 1U);
    EXPECT_EQ(source->left_out(), (std::vector<LeftOut>{{"README.md", "in no class"},
                                                        {"a/Thumbs.db", "not an image"}}));
  }
}

TEST(PackInputTest, a_directory_without_images_beside_classes_costs_no_labels) {
  const PackDir dir;
  for (const char* name : {"cat/1.jpg", "cat/2.jpg", "dog/3.jpg", "notes/a.txt", "notes/b/c.txt"})
    write_text(dir.file(name), name);
  for (int i = 0; i < 9; ++i) write_text(dir.file("logs/" + std::to_string(i) + "x.txt"), "more");
  for (const std::string kind : {"", "classes"}) {
    SCOPED_TRACE(kind);
    const auto source = open_source(dir.path(), {.kind = kind});
    ASSERT_TRUE(source);
    EXPECT_EQ(source->sample_count(), 3U);
    ASSERT_EQ(source->extra_files().size(), 1U);
    EXPECT_EQ(source->extra_files()[0].second, "{\n \"cat\": 0,\n \"dog\": 1\n}\n");
    EXPECT_EQ(source->left_out(),
              (std::vector<LeftOut>{{"logs", "no images"}, {"notes", "no images"}}));
  }
}

TEST(PackInputTest, a_directory_that_describes_the_images_makes_them_no_classes) {
  const PackDir dir;
  for (const char* name : {"left/1.jpg", "left/2.jpg", "right/1.jpg", "right/2.jpg",
                           "annotations/1.xml", "annotations/2.xml"})
    write_text(dir.file(name), name);
  const auto source = open_source(dir.path());
  ASSERT_TRUE(source);
  EXPECT_EQ(source->sample_count(), 6U);
  EXPECT_TRUE(source->left_out().empty());
}

TEST(PackInputTest, a_source_and_its_shards_lie_apart) {
  const PackDir dir;
  std::filesystem::create_directories(dir.file("images/cat"));
  write_text(dir.file("rows.jsonl"), "{}");
  const std::string src = dir.file("images");
  EXPECT_TRUE(check_apart(src, dir.file("out")).ok());
  EXPECT_TRUE(check_apart(src, dir.file("images-2")).ok());
  EXPECT_TRUE(check_apart(dir.file("rows.jsonl"), dir.file("rows.jsonl/x")).ok()) << "no directory";
  std::filesystem::create_directory_symlink(src, dir.file("link"));
  for (const auto& [to, why] : {std::pair{dir.file("images/out/a"), "is inside"},
                                {dir.file("link/out"), "is inside"},
                                {dir.file("images/"), "itself"},
                                {dir.path(), "contains the directory"}}) {
    const Status refusal = check_apart(src, to);
    EXPECT_EQ(refusal.code(), Code::invalid_argument) << to;
    EXPECT_NE(refusal.message().find(why), std::string_view::npos) << refusal.message();
    EXPECT_NE(refusal.message().find("images-shards"), std::string_view::npos);
  }
}

TEST(PackInputTest, a_class_without_images_is_told) {
  const PackDir dir;
  write_text(dir.file("cat/x.jpg"), "1");
  std::filesystem::create_directory(dir.file("dog"));
  std::filesystem::create_directory(dir.file("dst"));
  std::filesystem::create_directories(dir.file("cat/sub"));
  const auto source = open_source(dir.path(), {.excluded_directory = dir.file("dst")});
  ASSERT_TRUE(source);
  EXPECT_EQ(source->extra_files()[0].second, "{\n \"cat\": 0\n}\n");
  EXPECT_EQ(source->left_out(), (std::vector<LeftOut>{{"dog", "no images"}}));
}

TEST(PackInputTest, what_only_arrays_have_is_refused_of_others) {
  const PackDir dir;
  write_text(dir.file("src/t/a.txt"), "1");
  write_text(dir.file("a.jsonl"), "{\"a\": 1}\n");
  for (const std::string& path : {dir.file("src"), dir.file("a.jsonl")}) {
    for (const PackInputOptions& options :
         {PackInputOptions{.dtype = Dtype::int32}, PackInputOptions{.sequence_length = 5}}) {
      const Status refusal = open_fails(path, options);
      EXPECT_EQ(refusal.code(), Code::invalid_argument) << path;
      EXPECT_NE(refusal.message().find("are for arrays"), std::string_view::npos);
    }
  }
}

TEST(PackInputTest, files_that_belong_to_images_make_no_classes) {
  const PackDir dir;
  write_text(dir.file("pairs/a/x.jpg"), "1");
  write_text(dir.file("pairs/a/x.txt"), "a caption");
  write_text(dir.file("pairs/b/y.jpg"), "2");
  write_text(dir.file("parts/images/x.jpg"), "1");
  write_text(dir.file("parts/images/y.jpg"), "2");
  write_text(dir.file("parts/labels/x.txt"), "3");
  for (const char* tree : {"pairs", "parts"}) {
    const auto source = open_source(dir.file(tree));
    ASSERT_TRUE(source);
    EXPECT_TRUE(source->extra_files().empty()) << tree;
    EXPECT_TRUE(source->left_out().empty()) << tree;
  }
  const auto labelled = open_source(dir.file("pairs"), {.kind = "classes"});
  ASSERT_TRUE(labelled);
  EXPECT_EQ(read_source(*labelled)[0].fields.size(), 3U) << "jpg, txt and cls";
}

TEST(PackInputTest, other_trees_are_grouped_by_stem_as_webdataset_does) {
  const PackDir dir;
  write_text(dir.file("p/a.jpg"), "1");
  write_text(dir.file("p/a.seg.png"), "2");
  write_text(dir.file("p/a-b.txt"), "3");
  write_text(dir.file("q.json"), "{}");
  write_text(dir.file("README"), "no extension");
  write_text(dir.file(".hidden/x.jpg"), "hidden");
  const auto source = open_source(dir.path());
  ASSERT_TRUE(source);
  const auto all = read_source(*source);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].key, "p/a-b");
  EXPECT_EQ(all[0].types.at("txt"), FieldType::text);
  EXPECT_EQ(all[1].key, "p/a");
  EXPECT_EQ(all[1].fields, (Fields{{"jpg", "1"}, {"seg.png", "2"}}));
  EXPECT_EQ(all[2].key, "q");
  EXPECT_TRUE(source->extra_files().empty());
  ASSERT_EQ(source->left_out().size(), 2U);
  EXPECT_EQ(source->left_out()[0].name, ".hidden");
  EXPECT_EQ(source->left_out()[1].name, "README");
}

TEST(PackInputTest, what_is_ambiguous_or_empty_is_refused) {
  const PackDir dir;
  write_text(dir.file("one/a.jpg"), "1");
  write_text(dir.file("one/a.JPG"), "2");
  EXPECT_EQ(open_fails(dir.file("one"), {.kind = "tree"}).code(), Code::invalid_argument);
  std::filesystem::create_directory(dir.file("none"));
  EXPECT_EQ(open_fails(dir.file("none")).code(), Code::invalid_argument);
  EXPECT_EQ(open_fails(dir.file("absent")).code(), Code::not_found);
  write_text(dir.file("what.xyz"), "?");
  EXPECT_EQ(open_fails(dir.file("what.xyz")).code(), Code::invalid_argument);
  EXPECT_EQ(open_fails(dir.file("one"), {.kind = "magic"}).code(), Code::invalid_argument);
}

TEST(PackInputTest, links_in_circles_and_the_destination_are_not_walked) {
  const PackDir dir;
  write_text(dir.file("p/a.txt"), "1");
  write_text(dir.file("out/shard.txt"), "2");
  std::filesystem::create_directory_symlink(dir.path(), dir.file("p/loop.d"));
  std::filesystem::create_directory_symlink(dir.file("out"), dir.file("p/destination"));
  std::filesystem::create_symlink(dir.file("p/a.txt"), dir.file("p/b.txt"));
  const auto source = open_source(dir.path(), {.excluded_directory = dir.file("out")});
  ASSERT_TRUE(source);
  const auto all = read_source(*source);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].key, "p/b");
  EXPECT_EQ(all[1].fields.at("txt"), "1");
  EXPECT_EQ(source->left_out(),
            (std::vector<LeftOut>{{"p/loop.d", "a link to a directory that contains it"}}));
}

TEST(PackInputTest, class_directories_that_are_links_are_classes) {
  const PackDir dir;
  write_text(dir.file("src/cat/x.jpg"), "1");
  write_text(dir.file("src/emu/z.jpg"), "3");
  write_text(dir.file("elsewhere/y.jpg"), "2");
  std::filesystem::create_directory_symlink(dir.file("elsewhere"), dir.file("src/dog"));
  const auto source = open_source(dir.file("src"));
  ASSERT_TRUE(source);
  const auto all = read_source(*source);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[1].key, "dog/y");
  EXPECT_EQ(all[1].fields, (Fields{{"jpg", "2"}, {"cls", int64_bytes(1)}}));
  EXPECT_EQ(all[2].fields.at("cls"), int64_bytes(2)) << "nothing is renumbered";
}

TEST(PackInputTest, hidden_files_are_named_and_packed_if_asked_for) {
  const PackDir dir;
  for (const char* name : {"a.txt", ".b.txt", "d/.c.txt", ".git/e.txt"})
    write_text(dir.file(std::string("src/") + name), name);
  const auto plain = open_source(dir.file("src"));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->sample_count(), 1U);
  EXPECT_EQ(remarks_on(*plain),
            std::vector<std::string>{"left out: .b.txt, .git, d/.c.txt: hidden; --hidden packs "
                                     "hidden files (hidden=True in Python)"});
  const auto source = open_source(dir.file("src"), {.with_hidden = true});
  ASSERT_TRUE(source);
  const auto all = read_source(*source);
  ASSERT_EQ(all.size(), 4U);
  EXPECT_EQ(all[0].key, "_b");
  EXPECT_EQ(all[0].fields.at("txt"), ".b.txt");
  EXPECT_EQ(all[1].key, "_git/e");
  EXPECT_EQ(all[1].fields.at("txt"), ".git/e.txt");
  EXPECT_EQ(source->describe(1), dir.file("src/.git/e.txt"));
  EXPECT_EQ(source->describe(3), dir.file("src/d/.c.txt"));
  EXPECT_TRUE(remarks_on(*source).empty());
}

TEST(PackInputTest, what_is_left_out_is_named_by_reason) {
  const PackDir dir;
  write_text(dir.file("a.txt"), "1");
  for (int i = 0; i < 7; ++i) write_text(dir.file("name" + std::to_string(i)), "no extension");
  const auto source = open_source(dir.path());
  ASSERT_TRUE(source);
  EXPECT_EQ(remarks_on(*source),
            std::vector<std::string>{"left out: name0, name1, name2, name3, name4 and 2 more: no "
                                     "extension to name its field by"});
}

TEST(PackInputTest, splits_of_classes_are_told_with_the_commands_that_pack_them) {
  const PackDir dir;
  for (const char* split : {"train", "val"})
    for (const char* name : {"/cat/x.jpg", "/dog/y.jpg"})
      write_text(dir.file("src/") + split + name, "1");
  const std::string src = dir.file("src");
  const auto source = open_source(src, {.excluded_directory = "out dir"});
  ASSERT_TRUE(source);
  ASSERT_EQ(source->notes().size(), 1U);
  EXPECT_EQ(source->notes()[0],
            "train, val in " + src +
                " look like splits of labelled images, but are packed as one dataset without "
                "labels (no \"cls\"); to pack each of them into its own directory:\n  stoker "
                "pack " +
                src + "/train 'out dir-train'\n  stoker pack " + src +
                "/val 'out dir-val' --classes 'out dir-train/classes.json'");
  EXPECT_TRUE(open_source(src, {.kind = "tree"})->notes().empty()) << "asked for";
  EXPECT_NE(open_source(src, {.kind = "classes"})->notes()[0].find("as the classes"),
            std::string::npos);
  EXPECT_TRUE(open_source(src + "/train")->notes().empty());
}

TEST(PackInputTest, classes_take_the_numbers_they_are_given) {
  const PackDir dir;
  write_text(dir.file("src/dog/x.jpg"), "1");
  write_text(dir.file("classes.json"), R"({"cat": 3, "dog": 7})");
  const auto source = open_source(dir.file("src"), {.classes = dir.file("classes.json")});
  ASSERT_TRUE(source);
  EXPECT_EQ(read_source(*source)[0].fields.at("cls"), int64_bytes(7));
  EXPECT_EQ(source->extra_files()[0].second, "{\n \"cat\": 3,\n \"dog\": 7\n}\n");
  write_text(dir.file("src/emu/y.jpg"), "2");
  const Status refusal = open_fails(dir.file("src"), {.classes = dir.file("classes.json")});
  EXPECT_EQ(refusal.code(), Code::invalid_argument);
  EXPECT_NE(refusal.message().find("\"emu\" is not in the file"), std::string_view::npos)
      << refusal.message();
  for (const char* text : {"[]", "{}", R"({"a": -1})", R"({"a": 1, "b": 1})", R"({"a": "1"})"}) {
    write_text(dir.file("classes.json"), text);
    EXPECT_EQ(open_fails(dir.file("src"), {.classes = dir.file("classes.json")}).code(),
              Code::invalid_argument)
        << text;
  }
}

TEST(PackInputTest, images_under_several_names_are_told) {
  const PackDir dir;
  write_text(dir.file("a/x.jpeg"), "1");
  write_text(dir.file("a/y.PNG"), "2");
  write_text(dir.file("b/z.png"), "3");
  const auto source = open_source(dir.path());
  ASSERT_TRUE(source);
  EXPECT_EQ(source->notes(),
            std::vector<std::string>{"the images are in 2 fields: jpeg (1), png (2); \"jpeg;png\" "
                                     "reads the one that a sample has"});
  write_text(dir.file("a/x.seg.png"), "4");
  EXPECT_TRUE(open_source(dir.path())->notes().empty()) << "a mask is no other kind of image";
}

TEST(PackInputTest, a_file_that_changes_under_the_packer_is_reported) {
  const PackDir dir;
  write_text(dir.file("t/a.txt"), "four");
  const auto source = open_source(dir.path());
  InputSample sample;
  write_text(dir.file("t/a.txt"), "longer than it was");
  EXPECT_EQ(source->read(0, sample).code(), Code::unavailable);
  write_text(dir.file("t/a.txt"), "x");
  EXPECT_EQ(source->read(0, sample).code(), Code::unavailable);
}

TEST(PackInputTest, json_lines_keep_their_types) {
  const PackDir dir;
  write_text(
      dir.file("a.jsonl"),
      "{\"s\": \"h\\u00e9\", \"i\": -3, \"f\": 1.5, \"b\": true, \"n\": {\"x\": [1]}, \"m\": "
      "1}\r\n\n"
      "{\"__key__\": \"mine\", \"s\": \"t\", \"i\": 4, \"f\": 2, \"b\": false, \"m\": "
      "\"mixed\", \"z\": null}");
  const auto source = open_source(dir.file("a.jsonl"));
  ASSERT_TRUE(source);
  const auto all = read_source(*source);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].key, "000000000");
  EXPECT_EQ(all[1].key, "mine");
  EXPECT_EQ(all[0].fields.at("s"), "h\xc3\xa9");
  EXPECT_EQ(all[0].types.at("s"), FieldType::text);
  EXPECT_EQ(all[0].fields.at("i"), int64_bytes(-3));
  EXPECT_EQ(all[0].fields.at("b"), int64_bytes(1));
  EXPECT_EQ(all[0].types.at("f"), FieldType::float64);
  EXPECT_EQ(all[1].types.at("f"), FieldType::float64) << "an integer among floats is one";
  EXPECT_EQ(all[0].fields.at("n"), "{\"x\":[1]}");
  EXPECT_EQ(all[0].types.at("m"), FieldType::json) << "a mixture is JSON";
  EXPECT_EQ(all[1].fields.at("m"), "\"mixed\"");
  EXPECT_FALSE(all[1].fields.contains("z"));
  EXPECT_EQ(source->describe(1), dir.file("a.jsonl") + ": line 3");
  EXPECT_EQ(source->mds_columns().status().code(), Code::invalid_argument) << "n is not in all";
}

TEST(PackInputTest, an_integer_that_is_no_double_makes_json_of_its_field) {
  const PackDir dir;
  write_text(dir.file("a.jsonl"),
             "{\"big\": 9007199254740993, \"small\": 7, \"ints\": [9007199254740993], \"l\": [1]}\n"
             "{\"big\": 0.5, \"small\": 0.5, \"ints\": [2, true], \"l\": [0.5]}\n");
  const auto source = open_source(dir.file("a.jsonl"));
  ASSERT_TRUE(source);
  const auto all = read_source(*source);
  EXPECT_EQ(all[0].types.at("big"), FieldType::json);
  EXPECT_EQ(all[0].fields.at("big"), "9007199254740993");
  EXPECT_EQ(all[0].types.at("small"), FieldType::float64);
  InputSample sample;
  ASSERT_TRUE(source->read(0, sample).ok());
  EXPECT_EQ(sample.view.find("ints")->dtype, dtype_descr(Dtype::int64));
  EXPECT_EQ(sample.view.find("l")->dtype, dtype_descr(Dtype::float64));
  EXPECT_EQ(sample.view.find("big")->dtype, "");
}

TEST(PackInputTest, lines_that_are_no_samples_are_named) {
  const PackDir dir;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"{\"a\": 1}\n[1]\n", "line 2"},
      {"{\"a\": 1}\n{\"a\": 1\n", "line 2"},
      {"{\"a\": 1, \"a\": 2}\n", "line 1"},
      {"{\"__key__\": 7, \"a\": 1}\n", "line 1"},
      {"{}\n", "line 1"},
      {"{\"a\": 7}\n{\"a\": 18446744073709551616}\n",
       "line 2: byte 26: the integer 18446744073709551616 does not fit 64 bits; write it as text"},
      {"{\"a\": {\"b\": [-9223372036854775809]}}\n", "the integer -9223372036854775809 does not"},
      {"{\"a\": 1e400}\n", "the number 1e400 is too large for a double"},
      {"{\"a\": \"\\ud800\"}\n", "half of a surrogate pair"},
      {"{\"__key__\": \"k\"}\n", "line 1"},
      {"\n\n", "no samples"}};
  for (const auto& [text, part] : cases) {
    write_text(dir.file("a.jsonl"), text);
    const Status status = open_fails(dir.file("a.jsonl"));
    EXPECT_FALSE(status.ok()) << text;
    EXPECT_NE(status.message().find(part), std::string::npos) << status.message();
  }
}

TEST(PackInputTest, lines_longer_than_a_read_are_whole) {
  const PackDir dir;
  std::string text;
  for (int i = 0; i < 5; ++i)
    text += "{\"t\": \"" + std::string(3'000'000, static_cast<char>('a' + i)) + "\"}\n";
  write_text(dir.file("a.jsonl"), text);
  const auto all = read_source(*open_source(dir.file("a.jsonl")));
  ASSERT_EQ(all.size(), 5U);
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(all[static_cast<std::size_t>(i)].fields.at("t"),
              std::string(3'000'000, static_cast<char>('a' + i)));
}

TEST(PackInputTest, token_arrays_are_cut_into_sequences) {
  const PackDir dir;
  write_text(dir.file("t.bin"), std::string("\1\0\2\0\3\0\4\0\5\0", 10));
  EXPECT_EQ(open_fails(dir.file("t.bin")).code(), Code::invalid_argument) << "no dtype";
  const auto whole = open_source(dir.file("t.bin"), {.dtype = Dtype::uint16});
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->sample_count(), 1U);
  const auto cut = open_source(dir.file("t.bin"), {.dtype = Dtype::uint16, .sequence_length = 2});
  ASSERT_TRUE(cut);
  const auto all = read_source(*cut);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[2].fields.at("tokens"), std::string("\5\0", 2)) << "the rest is short";
  EXPECT_EQ(cut->token_dtype(), Dtype::uint16);

  const std::array<std::uint64_t, 2> shape = {2, 3};
  const auto head = make_npy_head(Dtype::uint8, shape);
  ASSERT_TRUE(head.ok());
  write_text(dir.file("n.npy"), text_of(*head) + "abcdef");
  const auto rows = read_source(*open_source(dir.file("n.npy")));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1].fields.at("tokens"), "def");
}

TEST(PackInputTest, headers_of_arrays_are_no_data) {
  const PackDir dir;
  const std::string rows = noise(2 * 3 * 4, 1);
  const auto shard001 = make_shard001_head(2, 3);
  const auto counted = make_counted_head(2, 3);
  ASSERT_TRUE(shard001.ok() && counted.ok());
  write_text(dir.file("s.bin"), text_of(*shard001) + rows);
  write_text(dir.file("c.bin"), text_of(*counted) + rows);
  const std::vector<std::pair<std::string, PackInputOptions>> cases = {
      {"s.bin", {}},
      {"s.bin", {.dtype = Dtype::float32}},
      {"s.bin", {.kind = "tokens"}},
      {"s.bin", {.kind = "shard001", .dtype = Dtype::int32}},
      {"c.bin", {.kind = "counted"}}};
  for (const auto& [name, options] : cases) {
    SCOPED_TRACE(name + " " + options.kind);
    const auto source = open_source(dir.file(name), options);
    ASSERT_TRUE(source);
    const auto all = read_source(*source);
    ASSERT_EQ(all.size(), 2U);
    EXPECT_EQ(all[1].fields.at("tokens"), rows.substr(12));
  }
  const auto raw = open_source(dir.file("s.bin"), {.kind = "raw", .dtype = Dtype::uint8});
  ASSERT_TRUE(raw);
  EXPECT_EQ(read_source(*raw)[0].fields.at("tokens").size(), 64U + rows.size());
  const Status unknown = open_fails(dir.file("c.bin"), {.kind = "magic"});
  for (const char* kind : {"counted", "shard001", "raw", "parquet", "text"})
    EXPECT_NE(unknown.message().find(kind), std::string::npos) << kind;
}

TEST(PackInputTest, the_fingerprint_follows_names_sizes_and_times) {
  const PackDir dir;
  write_text(dir.file("t/a.txt"), "1");
  const Digest128 before = open_source(dir.path())->fingerprint();
  EXPECT_EQ(open_source(dir.path())->fingerprint(), before);
  const timespec times[2] = {{1, 0}, {1, 0}};
  ASSERT_EQ(::utimensat(AT_FDCWD, dir.file("t/a.txt").c_str(), times, 0), 0);
  EXPECT_NE(open_source(dir.path())->fingerprint(), before);
}

}  // namespace
}  // namespace stoker::testing
