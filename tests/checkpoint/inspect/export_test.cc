#include "checkpoint/inspect/export.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/inspect/export_plan.h"
#include "checkpoint/step_builder.h"
#include "io/files/forwarding_file_ops.h"
#include "support/bystander.h"
#include "support/faulty_file_ops.h"
#include "support/hooked_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

/// What a safetensors file holds, by the tensors' names.
std::map<std::string, std::string> tensors_of(const std::string& path) {
  const std::string file = contents_of(path);
  const Result<SafetensorsHeader> header =
      parse_safetensors(std::as_bytes(std::span(file)), file.size());
  EXPECT_TRUE(header.ok()) << header.status().message();
  std::map<std::string, std::string> tensors;
  for (const SafetensorsEntry& entry : header->entries)
    tensors[entry.name] = file.substr(header->data_offset_bytes + entry.begin_bytes,
                                      entry.end_bytes - entry.begin_bytes);
  return tensors;
}

std::string text_of(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

int check_sums(const std::string& directory, const std::string& sums) {
  return std::system(
      ("cd '" + directory + "' && sha256sum -c --strict --quiet '" + sums + "'").c_str());
}

class ExportTest : public ::testing::Test {
 protected:
  ExportTest() {
    BuiltTensor left = random_tensor("state.model.w", TensorType::f32, {3, 2}, 1);
    BuiltTensor right = random_tensor("state.model.w", TensorType::f32, {3, 3}, 2);
    left.global_shape = right.global_shape = {3, 5};
    left.offsets = {0, 0};
    right.offsets = {0, 2};
    for (std::size_t row = 0; row < 3; ++row) {
      whole_ += text_of(left.bytes).substr(8 * row, 8);
      whole_ += text_of(right.bytes).substr(12 * row, 12);
    }
    bias_ = random_tensor("state.model.b", TensorType::bf16, {7}, 3);
    write_built_step(
        posix_file_ops(), dir_.path(),
        {.step = 4,
         .ranks = {{left, bias_, random_tensor("optimizer.m", TensorType::i8, {9}, 4)}, {right}}});
  }
  CheckpointReader reader() const {
    return *CheckpointReader::open(posix_file_ops(), dir_.file(step_name(4)), plain_reader());
  }

  const TempDir dir_;
  std::string whole_;
  BuiltTensor bias_;
};

TEST_F(ExportTest, writes_whole_tensors_into_one_file_with_sums_that_fit) {
  std::uint64_t shown = 0;
  const auto show = [&](std::uint64_t done, std::uint64_t count) {
    EXPECT_GT(done, shown);
    shown = done;
    EXPECT_EQ(count, 60U + 14);
  };
  const Result<ExportReport> report =
      export_safetensors(reader(), posix_file_ops(), dir_.file("out.safetensors"),
                         {.only = {"state."},
                          .strip = {"state.", "state.model."},
                          .piece_bytes = 8,
                          .progress = show});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(shown, 60U + 14);
  EXPECT_EQ(report->tensor_count, 2U);
  const auto tensors = tensors_of(dir_.file("out.safetensors"));
  ASSERT_EQ(tensors.size(), 2U);
  EXPECT_EQ(tensors.at("w"), whole_);
  EXPECT_EQ(tensors.at("b"), text_of(bias_.bytes));
  EXPECT_EQ(check_sums(dir_.path(), "out.safetensors.sha256"), 0);
  EXPECT_EQ(dir_.entry_count(), 3) << "the step, the file and its sums";
  EXPECT_EQ(export_safetensors(reader(), posix_file_ops(), dir_.file("out.safetensors"), {})
                .status()
                .code(),
            Code::already_exists);
}

TEST_F(ExportTest, writes_a_directory_as_hugging_face_has_it) {
  const Result<ExportReport> one =
      export_directory(reader(), posix_file_ops(), dir_.file("one/"), {});
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(tensors_of(dir_.file("one/model.safetensors")).size(), 3U);
  EXPECT_FALSE(fs::exists(dir_.file("one/model.safetensors.index.json")));
  const Result<ExportReport> several =
      export_directory(reader(), posix_file_ops(), dir_.file("several"), {.file_bytes_max = 30});
  ASSERT_TRUE(several.ok()) << several.status().message();
  EXPECT_EQ(check_sums(dir_.file("several"), "SHA256SUMS"), 0);
  const nlohmann::json index =
      nlohmann::json::parse(contents_of(dir_.file("several/model.safetensors.index.json")));
  EXPECT_EQ(index["metadata"]["total_size"], 60 + 14 + 9);
  EXPECT_EQ(index["weight_map"].size(), 3U);
  std::map<std::string, std::string> all;
  for (const auto& [name, file] : index["weight_map"].items()) {
    const auto tensors = tensors_of(dir_.file("several/" + file.get<std::string>()));
    ASSERT_TRUE(tensors.contains(name));
    all[name] = tensors.at(name);
  }
  EXPECT_EQ(all.at("state.model.w"), whole_);
  EXPECT_EQ(export_directory(reader(), posix_file_ops(), dir_.file("several"), {}).status().code(),
            Code::already_exists);
}

TEST_F(ExportTest, an_adapter_has_the_names_of_peft_and_its_own_files) {
  write_built_step(
      posix_file_ops(), dir_.path(),
      {.step = 5,
       .ranks = {{random_tensor("model.q.lora_A.mine.weight", TensorType::f32, {2}, 1),
                  random_tensor("model.q.lora_A.other.weight", TensorType::f32, {2}, 2),
                  random_tensor("model.q.base_layer.weight", TensorType::f32, {2}, 3)}}});
  const CheckpointReader reader =
      *CheckpointReader::open(posix_file_ops(), dir_.file(step_name(5)), plain_reader());
  ExportOptions options{.strip = {"model."},
                        .adapter = "mine",
                        .files = {{.name = "adapter_config.json", .text = "{}\n"}},
                        .file_bytes_max = 1};
  ASSERT_TRUE(export_directory(reader, posix_file_ops(), dir_.file("one"), options).ok());
  const auto tensors = tensors_of(dir_.file("one/adapter_model.safetensors"));
  ASSERT_EQ(tensors.size(), 1U);
  EXPECT_TRUE(tensors.contains("q.lora_A.weight"));
  EXPECT_EQ(contents_of(dir_.file("one/adapter_config.json")), "{}\n");
  EXPECT_EQ(check_sums(dir_.file("one"), "SHA256SUMS"), 0);
  options.adapter = "nobody";
  const Status none =
      export_directory(reader, posix_file_ops(), dir_.file("two"), options).status();
  EXPECT_EQ(none.code(), Code::invalid_argument);
  EXPECT_NE(none.message().find("there is no LoRA adapter nobody"), std::string::npos)
      << none.message();
}

TEST(ExportPlanTest, names_of_adapters_are_what_peft_makes_of_them) {
  const auto name = [](std::string_view whole) {
    return adapter_tensor_name(whole, "default").value_or("none");
  };
  EXPECT_EQ(name("a.lora_A.default.weight"), "a.lora_A.weight");
  EXPECT_EQ(name("a.lora_embedding_A.default"), "a.lora_embedding_A");
  EXPECT_EQ(name("a.lora_magnitude_vector.default.weight"), "a.lora_magnitude_vector");
  EXPECT_EQ(name("a.head.modules_to_save.default.weight"), "a.head.weight");
  EXPECT_EQ(name("a.default.lora_B.default.bias"), "a.default.lora_B.bias");
  EXPECT_EQ(name("modules_to_save.default"), "");
  for (const char* other : {"", ".", "default", "a.default.weight", "a.lora_A.other.weight",
                            "a.head.original_module.weight", "lora_A"})
    EXPECT_EQ(name(other), "none") << other;
}

TEST_F(ExportTest, refuses_names_that_meet_and_nothing_at_all) {
  const auto code = [&](const ExportOptions& options) {
    return export_safetensors(reader(), posix_file_ops(), dir_.file("x"), options).status().code();
  };
  EXPECT_EQ(code({.only = {"nothing"}}), Code::invalid_argument);
  EXPECT_EQ(code({.strip = {"state.model.w", "x"}}), Code::invalid_argument);
  EXPECT_EQ(code({.strip = {"state.model.w", "state.model.b"}}), Code::invalid_argument);
  EXPECT_EQ(dir_.entry_count(), 1);
}

TEST_F(ExportTest, any_single_failure_leaves_nothing_or_all_of_it) {
  for (int fail_at = 0;; ++fail_at) {
    const TempDir out;
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Status one = export_safetensors(reader(), ops, out.file("a.safetensors"), {}).status();
    const bool is_one_hit = ops.fired();
    const Status many =
        export_directory(reader(), ops, out.file("b"), {.file_bytes_max = 30}).status();
    if (!ops.fired()) break;
    for (const auto& entry : fs::directory_iterator(out.path()))
      EXPECT_EQ(entry.path().string().find(".staged-"), std::string::npos) << ops.failed_op();
    // One that is there is whole, and what was reported as done is there.
    if (fs::exists(out.file("a.safetensors"))) {
      EXPECT_EQ(check_sums(out.path(), "a.safetensors.sha256"), 0);
    } else {
      EXPECT_FALSE(one.ok());
    }
    if (fs::exists(out.file("b"))) {
      EXPECT_EQ(check_sums(out.file("b"), "SHA256SUMS"), 0);
    } else {
      EXPECT_FALSE(many.ok());
    }
    EXPECT_TRUE(!one.ok() || !is_one_hit || ops.failed_op() == "info_of") << ops.failed_op();
  }
}

TEST_F(ExportTest, whenever_it_is_killed_there_are_no_sums_without_their_file) {
  const TempDir out;
  std::size_t call_count = 0;
  HookedFileOps ops(posix_file_ops(), [&](std::string_view op, const PathAt*) {
    ++call_count;
    if (fs::exists(out.file("a.safetensors.sha256"))) {
      EXPECT_TRUE(fs::exists(out.file("a.safetensors"))) << "before " << op;
    }
    return Status();
  });
  ASSERT_TRUE(export_safetensors(reader(), ops, out.file("a.safetensors"), {}).ok());
  EXPECT_GT(call_count, 10U);
  EXPECT_EQ(check_sums(out.path(), "a.safetensors.sha256"), 0);
}

TEST_F(ExportTest, planted_links_are_not_written_through) {
  const Bystander other;
  FileOps& ops = posix_file_ops();
  fs::create_symlink(other.file("none"), dir_.file("out.safetensors"));
  EXPECT_EQ(export_safetensors(reader(), ops, dir_.file("out.safetensors"), {}).status().code(),
            Code::already_exists);
  EXPECT_EQ(export_directory(reader(), ops, dir_.file("out.safetensors"), {}).status().code(),
            Code::already_exists);
  fs::create_symlink(other.file(), dir_.file("two.safetensors.sha256"));
  EXPECT_EQ(export_safetensors(reader(), ops, dir_.file("two.safetensors"), {}).status().code(),
            Code::already_exists);
  EXPECT_FALSE(fs::exists(dir_.file("two.safetensors")));
  EXPECT_EQ(other.harm(), "");
}

/// Whoever watches the directory: as soon as a staging directory is made, a link has its name.
class SwapsDirectories final : public ForwardingFileOps {
 public:
  explicit SwapsDirectories(std::string target)
      : ForwardingFileOps(posix_file_ops()), target_(std::move(target)) {}
  Status mkdir(const PathAt& path) override {
    STOKER_TRY(ForwardingFileOps::mkdir(path));
    fs::rename(path.text(), path.text() + ".moved");
    fs::create_directory_symlink(target_, path.text());
    return {};
  }

 private:
  std::string target_;
};

TEST_F(ExportTest, a_staging_directory_that_becomes_a_link_is_neither_filled_nor_emptied) {
  const Bystander other;
  SwapsDirectories ops(other.path());
  EXPECT_FALSE(export_directory(reader(), ops, dir_.file("model"), {}).ok());
  EXPECT_FALSE(fs::exists(dir_.file("model")));
  EXPECT_EQ(other.harm(), "");
}

TEST_F(ExportTest, a_directory_that_is_reached_through_a_link_is_written_to) {
  fs::create_directory(dir_.file("real"));
  fs::create_directory_symlink(dir_.file("real"), dir_.file("link"));
  ASSERT_TRUE(export_safetensors(reader(), posix_file_ops(), dir_.file("link/x"), {}).ok());
  ASSERT_TRUE(export_directory(reader(), posix_file_ops(), dir_.file("link/model/"), {}).ok());
  EXPECT_TRUE(fs::exists(dir_.file("real/x")));
  EXPECT_TRUE(fs::exists(dir_.file("real/model/model.safetensors")));
}

}  // namespace
}  // namespace stoker::testing
