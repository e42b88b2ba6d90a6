// The hostile corpus of the tar reader: each archive is wrong in one way, and is refused for it.
#include "formats/webdataset/tar_walker.h"

#include <gtest/gtest.h>

#include "formats/tar_bytes.h"

namespace stoker {
namespace {

using testing::tar_end;
using testing::tar_member;
using testing::tar_octal;
using testing::tar_pad;
using testing::TarBlock;

struct Seen {
  std::string name;
  TarEntry::Kind kind;
  std::uint64_t begin_bytes;
  ByteRange data;
};

class SeenList : public TarEntrySink {
 public:
  Status add(const TarEntry& entry) override {
    seen.push_back({std::string(entry.name), entry.kind, entry.begin_bytes, entry.data});
    return {};
  }
  std::vector<Seen> seen;
};

Status walk(std::string_view archive, SeenList& list, bool require_end = true) {
  TarWalker walker({.size_bytes = archive.size(), .require_end = require_end});
  for (ByteRange want; (want = walker.wants()).size_bytes > 0;) {
    EXPECT_LE(want.size_bytes, kTarExtensionBytesMax);
    EXPECT_LE(want.end_bytes(), archive.size());
    STOKER_TRY(
        walker.feed(testing::as_bytes(archive.substr(want.offset_bytes, want.size_bytes)), list));
  }
  EXPECT_TRUE(walker.finished());
  return {};
}

std::string pax(const std::string& keyword, const std::string& value) {
  const std::size_t rest = keyword.size() + value.size() + 3;
  std::size_t length = rest + std::to_string(rest).size();
  length = rest + std::to_string(length).size();
  return std::to_string(length) + " " + keyword + "=" + value + "\n";
}
std::string x(const std::string& body) {
  return tar_member("././@PaxHeader", body, 'x');
}
std::string g(const std::string& body) {
  return tar_member("pax_global_header", body, 'g');
}
std::string long_name(const std::string& name) {
  return tar_member("././@LongLink", name + '\0', 'L');
}

std::vector<Seen> members_of(const std::string& archive) {
  SeenList list;
  const Status status = walk(archive, list);
  EXPECT_TRUE(status.ok()) << status.message();
  return list.seen;
}

TEST(TarWalkerTest, members_are_found_with_the_place_of_their_data) {
  const std::vector<Seen> seen =
      members_of(tar_member("a.txt", "12345") + tar_member("b.txt", std::string(512, 'b')) +
                 tar_member("c.txt", "") + tar_end());
  ASSERT_EQ(seen.size(), 3U);
  EXPECT_EQ(seen[0].data, (ByteRange{512, 5}));
  EXPECT_EQ(seen[1].data, (ByteRange{1536, 512}));
  EXPECT_EQ(seen[2].data, (ByteRange{2560, 0}));
  EXPECT_EQ(seen[2].name, "c.txt");
}

TEST(TarWalkerTest, a_pax_path_and_size_hold_for_the_next_member_only) {
  const std::string deep(300, 'd');
  const std::vector<Seen> seen = members_of(
      x(pax("path", deep) + pax("size", "7")) + TarBlock{.name = "short", .size = "0"}.bytes() +
      tar_pad("1234567") + tar_member("b.txt", "x") + tar_end());
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].name, deep);
  EXPECT_EQ(seen[0].begin_bytes, 0U);
  EXPECT_EQ(seen[0].data, (ByteRange{1536, 7}));
  EXPECT_EQ(seen[1].name, "b.txt");
  EXPECT_EQ(seen[1].data, (ByteRange{2560, 1}));
}

TEST(TarWalkerTest, a_gnu_long_name_holds_for_the_next_member_only) {
  const std::string deep(300, 'd');
  const std::vector<Seen> seen =
      members_of(long_name(deep) + tar_member("ddd", "x") + tar_member("b.txt", "y") + tar_end());
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0].name, deep);
  EXPECT_EQ(seen[0].begin_bytes, 0U);
  EXPECT_EQ(seen[1].name, "b.txt");
}

TEST(TarWalkerTest, a_global_header_and_unknown_keywords_change_nothing) {
  const std::vector<Seen> seen = members_of(g(pax("comment", "made by git")) +
                                            x(pax("mtime", "1.5") + pax("hdrcharset", "BINARY")) +
                                            tar_member("a.txt", "x") + tar_end());
  ASSERT_EQ(seen.size(), 1U);
  EXPECT_EQ(seen[0].name, "a.txt");
}

TEST(TarWalkerTest, a_label_and_no_member_is_an_empty_archive) {
  EXPECT_TRUE(members_of(g(pax("GNU.volume.label", "x")) + tar_end()).empty());
  EXPECT_TRUE(members_of(tar_member("x", "", 'V') + tar_end()).empty());
}

TEST(TarWalkerTest, directories_are_told_apart_from_files) {
  const std::vector<Seen> seen =
      members_of(tar_member("d/", "", '5') + TarBlock{.name = "v/", .type = '\0'}.bytes() +
                 tar_member("e.txt", "x", '\0') + tar_member("f.txt", "x", '7') + tar_end());
  ASSERT_EQ(seen.size(), 4U);
  EXPECT_EQ(seen[0].kind, TarEntry::Kind::directory);
  EXPECT_EQ(seen[1].kind, TarEntry::Kind::directory);
  EXPECT_EQ(seen[2].kind, TarEntry::Kind::regular);
  EXPECT_EQ(seen[3].kind, TarEntry::Kind::regular);
}

TEST(TarWalkerTest, what_follows_the_first_block_of_zeros_is_ignored) {
  EXPECT_EQ(members_of(tar_member("a.txt", "x") + std::string(512, '\0') +
                       tar_member("b.txt", "hidden") + "junk")
                .size(),
            1U);
  EXPECT_TRUE(members_of(tar_end()).empty());
}

TEST(TarWalkerTest, a_missing_end_is_refused_unless_it_is_allowed) {
  SeenList list;
  const Status status = walk(tar_member("a.txt", "x"), list);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find("offset 1024: no end-of-archive"), std::string::npos);
  EXPECT_TRUE(walk(tar_member("a.txt", "x"), list, /*require_end=*/false).ok());
}

TEST(TarWalkerTest, fewer_bytes_than_wanted_are_refused) {
  SeenList list;
  TarWalker walker({.size_bytes = 1024});
  EXPECT_EQ(walker.feed(testing::as_bytes("abc"), list).code(), Code::invalid_argument);
  EXPECT_EQ(walker.wants().size_bytes, 0U);
}

struct Hostile {
  std::string why;
  std::string archive;
  std::string message;  ///< How the message must begin.
  Code code = Code::corrupt;
};

std::vector<Hostile> hostile_archives() {
  const std::string good = tar_member("a.txt", "x");
  const auto typed = [](char type) { return TarBlock{.type = type}.bytes() + tar_end(); };
  const auto sized = [](const std::string& size) {
    return TarBlock{.size = size}.bytes() + tar_end();
  };
  const std::string huge_name(5000, 'n');
  std::vector<Hostile> all = {
      {"cut inside a header", good + "abc", "offset 1024: cut off: 3 bytes"},
      {"cut inside the data", tar_member("a.txt", std::string(600, 'x')).substr(0, 1024),
       "offset 0: member \"a.txt\" is cut off"},
      {"cut inside the padding", good.substr(0, 1000), "offset 0: member \"a.txt\" is cut off"},
      {"not a tar", std::string(512, 'x'), "offset 0: no tar header"},
      {"bad checksum after a good member", good + std::string(512, '1'),
       "offset 1024: header checksum"},
      {"oversized", sized("77777777777"), "offset 0: member \"a.txt\" is cut off"},
      {"oversized beyond overflow",
       sized(std::string("\x80\0\0\0\x7f", 5) + std::string(7, '\xff')),
       "offset 0: member \"a.txt\" is cut off"},
      {"negative size", sized(std::string(12, '\xff')), "offset 0: size is negative"},
      {"size above 63 bits", sized("\x80" + std::string(11, '\xff')), "offset 0: size is above"},
      {"absolute name", tar_member("/etc/passwd", "x") + tar_end(),
       "offset 0: member \"/etc/passwd\" has a name that is absolute"},
      {"name that goes up", tar_member("a/../../b", "x") + tar_end(),
       "offset 0: member \"a/../../b\" has a name that goes up"},
      {"name that only goes up", tar_member("..", "x") + tar_end(), "offset 0: member \"..\""},
      {"absolute by its prefix", TarBlock{.prefix = "/p"}.bytes() + tar_end(),
       "offset 0: member \"/p/a.txt\" has a name that is absolute"},
      {"going up by its prefix", TarBlock{.prefix = ".."}.bytes() + tar_end(),
       "offset 0: member \"../a.txt\" has a name that goes up"},
      {"no name", tar_member("", "x") + tar_end(),
       "offset 0: member \"\" has a name that is empty"},
      {"file that looks like a directory", tar_member("d/", "x") + tar_end(),
       "offset 0: member \"d/\" is a file whose name ends"},
      {"directory with contents", tar_member("d/", "x", '5') + tar_end(),
       "offset 0: member \"d/\" is a directory with contents"},
      {"V7 directory with another name",
       long_name("file") + TarBlock{.name = "d/", .type = '\0'}.bytes() + tar_end(),
       "offset 1024: member \"file\" is a V7 directory"},
      {"name above the limit", long_name(huge_name) + good + tar_end(),
       "offset 5632: member \"nnn"},
      {"NUL inside a long name", tar_member("L", std::string("a\0b\0", 4), 'L') + good + tar_end(),
       "offset 0: a GNU long name has a NUL"},
      {"long name of NULs", tar_member("L", std::string(3, '\0'), 'L') + good + tar_end(),
       "offset 0: a GNU long name is empty"},
      {"PAX bomb: a header of 2 MiB",
       TarBlock{.size = "10000000", .type = 'x'}.bytes() + std::string(2 << 20, ' '),
       "offset 0: a PAX header of more than 1 MiB"},
      {"long name that is cut off", TarBlock{.size = "2000", .type = 'L'}.bytes() + good, ""},
      {"PAX header without contents", x("") + good + tar_end(), "offset 0: a PAX header without"},
      {"PAX header without a member", x(pax("path", "b.txt")) + tar_end(),
       "offset 1024: the archive ends after an extended header"},
      {"global header without a member", good + g(pax("comment", "x")) + tar_end(),
       "offset 2048: the archive ends after an extended header"},
      {"cut off after a PAX header", x(pax("path", "b.txt")),
       "offset 1024: cut off after an extended header"},
      {"two PAX headers", x(pax("size", "1")) + x(pax("size", "2")) + good + tar_end(),
       "offset 1024: a PAX header where the member"},
      {"PAX size smuggled past a long name",
       x(pax("size", "1024")) + long_name("b.txt") + good + tar_end(),
       "offset 1024: a GNU long name where the member"},
      {"long name, then PAX path", long_name("b.txt") + x(pax("path", "c.txt")) + good + tar_end(),
       "offset 1024: a PAX header where the member"},
      {"global header inside", x(pax("path", "b.txt")) + g(pax("comment", "x")) + good + tar_end(),
       "offset 1024: a global PAX header where"},
      {"two global headers", g(pax("comment", "x")) + g(pax("comment", "x")) + good + tar_end(),
       "offset 1024: a global PAX header right after"},
      {"PAX path given twice", x(pax("path", "b") + pax("path", "c")) + good + tar_end(),
       "offset 0: PAX path is given twice"},
      {"PAX size given twice", x(pax("size", "1") + pax("size", "2")) + good + tar_end(),
       "offset 0: PAX size is given twice"},
      {"PAX path that is empty", x(pax("path", "")) + good + tar_end(),
       "offset 0: PAX path is empty"},
      {"PAX path with a NUL", x(pax("path", std::string("a\0b", 3))) + good + tar_end(),
       "offset 0: PAX path has a NUL"},
      {"PAX size that is negative", x(pax("size", "-1")) + good + tar_end(),
       "offset 0: PAX size \"-1\""},
      {"PAX size above 64 bits", x(pax("size", "18446744073709551616")) + good + tar_end(),
       "offset 0: PAX size"},
      {"PAX size that overflows the padding",
       x(pax("size", "18446744073709551615")) + good + tar_end(),
       "offset 1024: member \"a.txt\" is cut off"},
      {"PAX path that goes up", x(pax("path", "../b")) + good + tar_end(),
       "offset 1024: member \"../b\" has a name"},
      {"unknown character set", x(pax("hdrcharset", "EBCDIC")) + good + tar_end(),
       "offset 0: PAX character set"},
      {"PAX record without length", x("path=b.txt\n") + good + tar_end(), "offset 0: PAX record"},
      {"PAX record of length 0", x("0 path=b.txt\n") + good + tar_end(), "offset 0: PAX record"},
      {"PAX record too long", x("99 path=b.txt\n") + good + tar_end(), "offset 0: PAX record"},
      {"PAX record too short", x("5 path=b.txt\n") + good + tar_end(), "offset 0: PAX record"},
      {"PAX length with a leading zero", x("013 path=b.t\n") + good + tar_end(),
       "offset 0: PAX record"},
      {"PAX length above 64 bits", x("99999999999999999999 a=b\n") + good + tar_end(),
       "offset 0: PAX record"},
      {"PAX record without new line", x("12 path=b.txt") + good + tar_end(),
       "offset 0: PAX record"},
      {"PAX record without keyword", x("6 =ab\n") + good + tar_end(), "offset 0: PAX record"},
      {"PAX record without value", x("8 abcde\n") + good + tar_end(), "offset 0: PAX record"},
      {"blank before a PAX keyword", x("14  path=b.tx\n") + good + tar_end(),
       "offset 0: PAX record"},
      {"PAX record in the padding",
       TarBlock{.size = tar_octal(9), .type = 'x'}.bytes() + tar_pad("9 size=1\n15 path=b.txt\n") +
           good + tar_end(),
       "offset 0: the padding of an extended header"},
      {"PAX sparse file", x(pax("GNU.sparse.major", "1")) + good + tar_end(),
       "offset 0: PAX keyword \"GNU.sparse.major\"", Code::unsupported},
      {"global path", g(pax("path", "b.txt")) + good + tar_end(), "offset 0: a global PAX header",
       Code::unsupported},
      {"global size", g(pax("size", "1")) + good + tar_end(), "offset 0: a global PAX header",
       Code::unsupported},
      {"gzip", "\x1f\x8b\x08" + std::string(600, 'x'), "offset 0: this is gzip", Code::unsupported},
      {"short gzip", "\x1f\x8b\x08", "offset 0: this is gzip", Code::unsupported},
      {"zstd", "\x28\xb5\x2f\xfd" + std::string(600, 'x'), "offset 0: this is zstd",
       Code::unsupported},
      {"xz",
       "\xfd"
       "7zXZ" +
           std::string(600, 'x'),
       "offset 0: this is xz", Code::unsupported},
      {"bzip2", "BZh9" + std::string(600, 'x'), "offset 0: this is bzip2", Code::unsupported},
  };
  all.push_back({"a label with contents", tar_member("label", "x", 'V') + good + tar_end(),
                 "offset 0: \"label\" is a volume label with contents", Code::unsupported});
  all.push_back({"a label with an extended header",
                 x(pax("mtime", "1")) + TarBlock{.type = 'V'}.bytes() + tar_end(),
                 "offset 1024: \"a.txt\" is a volume label", Code::unsupported});
  for (const char type : std::string("12346KSMDNXA"))
    all.push_back(
        {std::string("type ") + type, typed(type), "offset 0: \"a.txt\" is ", Code::unsupported});
  return all;
}

TEST(TarWalkerTest, every_hostile_archive_is_refused_for_its_reason) {
  for (const Hostile& hostile : hostile_archives()) {
    for (const bool require_end : {true, false}) {
      SeenList list;
      const Status status = walk(hostile.archive, list, require_end);
      EXPECT_EQ(status.code(), hostile.code) << hostile.why << ": " << status.message();
      EXPECT_TRUE(status.message().starts_with(hostile.message))
          << hostile.why << ": " << status.message();
    }
  }
}

TEST(TarWalkerTest, a_message_quotes_hostile_names_in_printable_ascii) {
  SeenList list;
  const Status status = walk(tar_member("/\x1b[2J\xff\n" + std::string(90, 'x'), "x"), list);
  ASSERT_FALSE(status.ok());
  EXPECT_LT(status.message().size(), 200U);
  for (const char c : status.message()) EXPECT_TRUE(c >= ' ' && c <= '~');
}

}  // namespace
}  // namespace stoker
