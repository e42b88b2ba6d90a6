#include "formats/arrays/megatron.h"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "base/hex.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

class MemorySink : public ByteSink {
 public:
  explicit MemorySink(std::size_t fail_at = SIZE_MAX) : fail_at_(fail_at) {}
  Status write(std::span<const std::byte> piece) override {
    if (calls_++ >= fail_at_) return Status(Code::no_space, "the sink is full");
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;

 private:
  std::size_t fail_at_;
  std::size_t calls_ = 0;
};

std::vector<std::byte> golden(const std::string& name) {
  const std::string text = testing::contents_of(STOKER_GOLDEN_DIR "/tokens/" + name);
  EXPECT_FALSE(text.empty()) << name;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

template <typename Number>
void put(std::vector<std::byte>& bytes, std::size_t offset, Number number) {
  ASSERT_LE(offset + sizeof number, bytes.size());
  std::memcpy(bytes.data() + offset, &number, sizeof number);
}

template <typename Token>
std::span<const std::byte> bytes_of(const std::vector<Token>& tokens) {
  return std::as_bytes(std::span(tokens));
}

// Documents [[1, 2, 3]], [[4], [5, 65535]], [].
TEST(MegatronTest, what_megatron_core_wrote_reads_as_it_was_made) {
  const std::vector<std::byte> idx = golden("uint16.idx");
  const Result<MegatronIndexView> view = MegatronIndexView::open(idx);
  ASSERT_TRUE(view.ok()) << view.status().message();
  ASSERT_TRUE(view->validate(golden("uint16.bin").size()).ok());
  EXPECT_EQ(view->dtype(), Dtype::uint16);
  EXPECT_FALSE(view->multimodal());
  ASSERT_EQ(view->sequence_count(), 3U);
  EXPECT_EQ(view->sequence(0), (ByteRange{0, 6}));
  EXPECT_EQ(view->sequence(1), (ByteRange{6, 2}));
  EXPECT_EQ(view->sequence(2), (ByteRange{8, 4}));
  EXPECT_EQ(view->sequence_tokens(0), 3U);
  ASSERT_EQ(view->document_count(), 3U);
  EXPECT_EQ(view->document(0), (DocumentRange{0, 1}));
  EXPECT_EQ(view->document(1), (DocumentRange{1, 2}));
  EXPECT_EQ(view->document(2), (DocumentRange{3, 0}));
}

TEST(MegatronTest, the_modes_of_a_multimodal_dataset_are_read) {
  const std::vector<std::byte> idx = golden("multimodal.idx");
  const Result<MegatronIndexView> view = MegatronIndexView::open(idx);
  ASSERT_TRUE(view.ok()) << view.status().message();
  ASSERT_TRUE(view->validate(golden("multimodal.bin").size()).ok());
  EXPECT_EQ(view->dtype(), Dtype::int32);
  ASSERT_TRUE(view->multimodal());
  for (std::uint64_t i = 0; i < 3; ++i) EXPECT_EQ(view->mode(i), static_cast<std::int8_t>(i));
  EXPECT_EQ(view->sequence(1), (ByteRange{8, 0}));
}

TEST(MegatronTest, the_writer_makes_megatron_cores_bytes) {
  MemorySink bin;
  MemorySink idx;
  Result<MegatronWriter> writer = MegatronWriter::make(bin, {.dtype = Dtype::uint16});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->append(bytes_of(std::vector<std::uint16_t>{1, 2, 3})).ok());
  ASSERT_TRUE(writer->end_document().ok());
  ASSERT_TRUE(writer->append(bytes_of(std::vector<std::uint16_t>{4})).ok());
  ASSERT_TRUE(writer->append(bytes_of(std::vector<std::uint16_t>{5, 65535})).ok());
  ASSERT_TRUE(writer->end_document().ok());
  ASSERT_TRUE(writer->end_document().ok());
  EXPECT_EQ(writer->sequence_count(), 3U);
  EXPECT_EQ(writer->document_count(), 3U);
  EXPECT_EQ(writer->bin_size_bytes(), 12U);
  ASSERT_TRUE(writer->finish(idx).ok());
  EXPECT_EQ(format_hex(idx.bytes), format_hex(golden("uint16.idx")));
  EXPECT_EQ(format_hex(bin.bytes), format_hex(golden("uint16.bin")));
}

TEST(MegatronTest, the_writer_makes_megatron_cores_modes) {
  MemorySink bin;
  MemorySink idx;
  Result<MegatronWriter> writer = MegatronWriter::make(bin, {.multimodal = true});
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE(writer->append(bytes_of(std::vector<std::int32_t>{-1, 2}), 0).ok());
  ASSERT_TRUE(writer->end_document().ok());
  ASSERT_TRUE(writer->append({}, 1).ok());
  ASSERT_TRUE(writer->append(bytes_of(std::vector<std::int32_t>{3}), 2).ok());
  ASSERT_TRUE(writer->end_document().ok());
  ASSERT_TRUE(writer->finish(idx).ok());
  EXPECT_EQ(format_hex(idx.bytes), format_hex(golden("multimodal.idx")));
  EXPECT_EQ(format_hex(bin.bytes), format_hex(golden("multimodal.bin")));
}

TEST(MegatronTest, an_index_of_nothing_is_valid) {
  MemorySink bin;
  MemorySink idx;
  Result<MegatronWriter> writer = MegatronWriter::make(bin);
  ASSERT_TRUE(writer->finish(idx).ok());
  const Result<MegatronIndexView> view = MegatronIndexView::open(idx.bytes);
  ASSERT_TRUE(view.ok());
  EXPECT_TRUE(view->validate(0).ok());
  EXPECT_EQ(view->document_count(), 0U);
}

TEST(MegatronTest, the_codes_of_dtypes_are_megatrons) {
  const std::pair<Dtype, int> kCodes[] = {
      {Dtype::uint8, 1}, {Dtype::int8, 2},    {Dtype::int16, 3},   {Dtype::int32, 4},
      {Dtype::int64, 5}, {Dtype::float64, 6}, {Dtype::float32, 7}, {Dtype::uint16, 8}};
  for (const auto& [dtype, code] : kCodes) EXPECT_EQ(*megatron_dtype_code(dtype), code);
  for (const Dtype dtype :
       {Dtype::uint32, Dtype::uint64, Dtype::float16, Dtype::bfloat16, Dtype::boolean}) {
    MemorySink bin;
    EXPECT_EQ(MegatronWriter::make(bin, {.dtype = dtype}).status().code(), Code::invalid_argument);
  }
}

TEST(MegatronTest, what_cannot_be_written_is_refused_and_changes_nothing) {
  MemorySink bin;
  MemorySink idx;
  Result<MegatronWriter> writer = MegatronWriter::make(bin);
  EXPECT_EQ(writer->append(bytes_of(std::vector<std::uint16_t>{1})).code(), Code::invalid_argument);
  EXPECT_EQ(writer->append({}, 1).code(), Code::invalid_argument);
  ASSERT_TRUE(writer->append(bytes_of(std::vector<std::int32_t>{1})).ok());
  EXPECT_EQ(writer->finish(idx).code(), Code::invalid_argument);  // in no document
  EXPECT_TRUE(idx.bytes.empty());
  ASSERT_TRUE(writer->end_document().ok());
  ASSERT_TRUE(writer->finish(idx).ok());
  EXPECT_EQ(writer->append({}).code(), Code::invalid_argument);
  EXPECT_EQ(writer->end_document().code(), Code::invalid_argument);
  EXPECT_EQ(writer->finish(idx).code(), Code::invalid_argument);
  EXPECT_TRUE(MegatronIndexView::open(idx.bytes)->validate(bin.bytes.size()).ok());
}

TEST(MegatronTest, a_failed_sink_fails_the_writer_for_good) {
  MemorySink bin(0);
  MemorySink idx;
  Result<MegatronWriter> writer = MegatronWriter::make(bin);
  EXPECT_EQ(writer->append(bytes_of(std::vector<std::int32_t>{1})).code(), Code::no_space);
  EXPECT_EQ(writer->append({}).code(), Code::no_space);
  EXPECT_EQ(writer->finish(idx).code(), Code::no_space);
  MemorySink good;
  MemorySink full(0);
  Result<MegatronWriter> other = MegatronWriter::make(good);
  EXPECT_EQ(other->finish(full).code(), Code::no_space);
  EXPECT_EQ(other->finish(idx).code(), Code::no_space);
}

struct Hostile {
  const char* reason;
  std::size_t offset;
  std::int64_t value;
  std::size_t size;  // of the value
  const char* message;
  Code code = Code::corrupt;
};

// Into uint16.idx: 3 sequences, 4 boundaries; lengths at 34, pointers at 46, boundaries at 70.
constexpr Hostile kHostile[] = {
    {"magic", 0, 0, 1, ".idx offset 0: the file does not begin with MMIDIDX"},
    {"magic's last zero", 8, 1, 1, ".idx offset 0: the file does not begin with MMIDIDX"},
    {"version", 9, 2, 8, ".idx offset 9: version 2, not 1", Code::unsupported},
    {"dtype 0", 17, 0, 1, ".idx offset 17: unknown dtype code 0"},
    {"dtype 9", 17, 9, 1, ".idx offset 17: unknown dtype code 9"},
    {"too many sequences", 18, 6, 8, "6 sequences of 12 bytes do not fit"},
    {"2^63 sequences", 18, std::numeric_limits<std::int64_t>::min(), 8, "do not fit a file of 102"},
    {"sequences that overflow times 12", 18, 0x1555555555555556, 8, "do not fit a file of 102"},
    {"too many boundaries", 26, 5, 8, "5 boundaries of 8 bytes do not fit a file of 102 with 3"},
    {"2^64 - 1 boundaries", 26, -1, 8, "18446744073709551615 boundaries"},
    {"no boundaries", 26, 0, 8, "no boundaries"},
    {"boundaries left over", 26, 3, 8, ".idx offset 94: 8 bytes follow the boundaries"},
    {"negative length", 34, -1, 4, ".idx offset 34: sequence 0 has -1 tokens"},
    {"oversized length", 42, 100, 4,
     ".idx offset 42: sequence 2, 200 bytes at 8, goes past the end"},
    {"2^31 - 1 tokens", 42, 0x7FFFFFFF, 4, "sequence 2, 4294967294 bytes at 8, goes past the end"},
    {"length too small", 42, 1, 4, "the sequences end at byte 10, the .bin at 12"},
    {"negative pointer", 54, -6, 8, ".idx offset 54: sequence 1 begins at -6"},
    {"overlap", 54, 4, 8,
     "sequence 1 begins at byte 4 and overlaps the one before, which ends at 6"},
    {"duplicate", 54, 0, 8, "sequence 1 begins at byte 0 and overlaps"},
    {"gap", 54, 8, 8, "sequence 1 begins at byte 8 and leaves a gap after the one before"},
    {"first pointer", 46, 2, 8, "sequence 0 begins at byte 2 and leaves a gap"},
    {"first boundary", 70, 1, 8, ".idx offset 70: the first document begins at sequence 1"},
    {"negative boundary", 78, -1, 8, "boundary 1 is at sequence -1 of 3"},
    {"boundary past the end", 78, 4, 8, "boundary 1 is at sequence 4 of 3"},
    {"boundary goes back", 86, 0, 8, "boundary 2 goes back from sequence 1 to 0"},
    {"last boundary", 94, 2, 8, "boundary 3 goes back from sequence 3 to 2"},
};

TEST(MegatronTest, each_way_to_be_wrong_has_its_message) {
  for (const Hostile& hostile : kHostile) {
    std::vector<std::byte> idx = golden("uint16.idx");
    std::memcpy(idx.data() + hostile.offset, &hostile.value, hostile.size);
    const Result<MegatronIndexView> view = MegatronIndexView::open(idx);
    const Status status = view.ok() ? view->validate(12) : view.status();
    EXPECT_EQ(status.code(), hostile.code) << hostile.reason;
    EXPECT_NE(status.message().find(hostile.message), std::string::npos)
        << hostile.reason << ": " << status.message();
  }
}

TEST(MegatronTest, sequences_after_the_last_document_are_corrupt) {
  std::vector<std::byte> idx = golden("uint16.idx");
  for (const std::size_t offset : {86U, 94U}) put(idx, offset, std::int64_t{2});
  EXPECT_EQ(MegatronIndexView::open(idx)->validate(12).message(),
            ".idx offset 94: the last document ends at sequence 2 of 3");
}

TEST(MegatronTest, a_bin_of_another_size_is_corrupt) {
  const std::vector<std::byte> idx = golden("uint16.idx");
  for (const std::uint64_t size : {0U, 11U, 13U, 14U})
    EXPECT_EQ(MegatronIndexView::open(idx)->validate(size).code(), Code::corrupt) << size;
}

TEST(MegatronTest, every_truncation_is_an_error) {
  for (const char* name : {"uint16.idx", "multimodal.idx"}) {
    const std::vector<std::byte> whole = golden(name);
    for (std::size_t size = 0; size < whole.size(); ++size) {
      const std::vector<std::byte> cut(whole.begin(),
                                       whole.begin() + static_cast<std::ptrdiff_t>(size));
      const Result<MegatronIndexView> view = MegatronIndexView::open(cut);
      // Without all its modes, and nothing else missing, a dataset is not multimodal.
      if (std::string_view(name) == "multimodal.idx" && size == whole.size() - 3) {
        EXPECT_TRUE(view.ok() && !view->multimodal());
        continue;
      }
      EXPECT_EQ(view.status().code(), Code::corrupt) << name << " at " << size;
    }
  }
}

TEST(MegatronTest, any_flipped_bit_is_found_but_those_that_move_an_inner_boundary) {
  // Lengths, pointers and the size of the .bin confirm one another.
  const std::vector<std::byte> whole = golden("uint16.idx");
  for (std::size_t bit = 0; bit < whole.size() * 8; ++bit) {
    std::vector<std::byte> idx = whole;
    idx[bit / 8] ^= std::byte{1} << bit % 8;
    const Result<MegatronIndexView> view = MegatronIndexView::open(idx);
    const bool found = !view.ok() || !view->validate(12).ok();
    const bool middle_boundary = bit / 8 >= 78 && bit / 8 < 94;  // may move between neighbours
    EXPECT_TRUE(found || middle_boundary) << "bit " << bit;
  }
}

TEST(MegatronTest, random_datasets_read_back) {
  std::mt19937_64 random(3);
  for (int round = 0; round < 50; ++round) {
    MemorySink bin;
    MemorySink idx;
    Result<MegatronWriter> writer =
        MegatronWriter::make(bin, {.dtype = Dtype::int64, .multimodal = round % 2 == 0});
    std::vector<std::size_t> lengths;
    for (std::size_t i = random() % 40; i-- > 0;) {
      lengths.push_back(random() % 5);
      ASSERT_TRUE(writer->append(bytes_of(std::vector<std::int64_t>(lengths.back(), -7))).ok());
      if (random() % 3 == 0) {
        ASSERT_TRUE(writer->end_document().ok());
      }
    }
    ASSERT_TRUE(writer->end_document().ok());
    ASSERT_TRUE(writer->finish(idx).ok());
    const Result<MegatronIndexView> view = MegatronIndexView::open(idx.bytes);
    ASSERT_TRUE(view.ok() && view->validate(bin.bytes.size()).ok());
    ASSERT_EQ(view->sequence_count(), lengths.size());
    for (std::size_t i = 0; i < lengths.size(); ++i)
      EXPECT_EQ(view->sequence_tokens(i), lengths[i]);
    EXPECT_EQ(view->document_count(), writer->document_count());
  }
}

}  // namespace
}  // namespace stoker
