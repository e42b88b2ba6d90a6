/// \file
/// Written by generate.py, with mosaicml-streaming 0.13.0: shards in hexadecimal, and
/// their index.json.
#pragma once

namespace stoker::testing {

// clang-format off
inline constexpr char kMdsPlainShard[] =
    "02000000c5000000d3000000df0000007b22636f6c756d6e5f656e636f64696e6773223a205b22696e74222c20"
    "22737472225d2c2022636f6c756d6e5f6e616d6573223a205b2261222c202262225d2c2022636f6c756d6e5f73"
    "697a6573223a205b382c206e756c6c5d2c2022636f6d7072657373696f6e223a206e756c6c2c2022666f726d61"
    "74223a20226d6473222c2022686173686573223a205b5d2c202273697a655f6c696d6974223a20363731303838"
    "36342c202276657273696f6e223a20327d0200000001000000000000006869000000000200000000000000";
inline constexpr char kMdsPlainIndex[] = R"json({"shards": [{"column_encodings": ["int", "str"], "column_names": ["a", "b"], "column_sizes": [8, null], "compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": "shard.00000.mds", "bytes": 223, "hashes": {}}, "samples": 2, "size_limit": 67108864, "version": 2, "zip_data": null}], "version": 2})json";

inline constexpr char kMdsArraysShard[] =
    "0100000006010000500200007b22636f6c756d6e5f656e636f64696e6773223a205b226e646172726179222c20"
    "226e6461727261793a696e7431363a32222c20226e6461727261793a666c6f61743332222c202275696e743822"
    "5d2c2022636f6c756d6e5f6e616d6573223a205b22616e79222c20226669786564222c20227479706564222c20"
    "2275225d2c2022636f6c756d6e5f73697a6573223a205b6e756c6c2c20342c206e756c6c2c20315d2c2022636f"
    "6d7072657373696f6e223a206e756c6c2c2022666f726d6174223a20226d6473222c2022686173686573223a20"
    "5b5d2c202273697a655f6c696d6974223a206e756c6c2c202276657273696f6e223a20327d320100000b000000"
    "08092c010100000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223242526"
    "2728292a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f50515253"
    "5455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80"
    "8182838485868788898a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacad"
    "aeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9da"
    "dbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff0001020304050607"
    "08090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f202122232425262728292a2b0100ffff0801020000"
    "003f0000c03fc8";
inline constexpr char kMdsArraysIndex[] = R"json({"shards": [{"column_encodings": ["ndarray", "ndarray:int16:2", "ndarray:float32", "uint8"], "column_names": ["any", "fixed", "typed", "u"], "column_sizes": [null, 4, null, 1], "compression": null, "format": "mds", "hashes": [], "raw_data": {"basename": "shard.00000.mds", "bytes": 592, "hashes": {}}, "samples": 1, "size_limit": null, "version": 2, "zip_data": null}], "version": 2})json";

inline constexpr char kMdsZstdShard[] =
    "28b52ffd602800b50400c2471c21a0a90dffff3f0b2fcd4f76a9ed44b0d22d85649a00680fa2682222a8d3ff35"
    "490a75779b43994ec1280914c300028b820d63a3060a7bff9ebd6f4d594f79609478598d7e65b4d825fc7733d1"
    "313e5ee12f5c3347a9c0ef28c3c004b4f8110e9b74dc35de4f940e37769164771fbb8b040d00004fc6155c395d"
    "a562852d44b142129a36ba69ddce41c0303af9f5390805a1ca";
inline constexpr char kMdsZstdIndex[] = R"json({"shards": [{"column_encodings": ["bytes"], "column_names": ["x"], "column_sizes": [null], "compression": "zstd:7", "format": "mds", "hashes": ["sha256"], "raw_data": {"basename": "shard.00000.mds", "bytes": 296, "hashes": {"sha256": "6ca946272dd50d726fd2eb99a16c9ac271adcf613a6ca73d90b29fe1a2f41ff7"}}, "samples": 1, "size_limit": 67108864, "version": 2, "zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 160, "hashes": {"sha256": "70edb5376c9d11c4b3b370a60c3bb933181894f71754827757c27e1d2859ac99"}}}], "version": 2})json";

inline constexpr char kMdsGzipShard[] =
    "1f8b08003fd0f96a02ff63646060d803c42a8c0c0cd54ac9f939a5b979f1a979c9f9299979e9c54a560ad14a49"
    "9525a9c54ab13a0a30e9bcc4dc54885405b2707166154438af342707229e5b50945a5c9c999f0714564aaf5202"
    "0aa6e517e5269680f8b929c520818cc4e20c9871151986461660334186c5e764e66682949a991b1a5858989900"
    "c5cb528ba0e619d5a600dd5d45070000e408a65a24010000";
inline constexpr char kMdsGzipIndex[] = R"json({"shards": [{"column_encodings": ["bytes"], "column_names": ["x"], "column_sizes": [null], "compression": "gz", "format": "mds", "hashes": ["xxh128"], "raw_data": {"basename": "shard.00000.mds", "bytes": 292, "hashes": {"xxh128": "63a7c7ecf294d42d5afa79481d37e980"}}, "samples": 1, "size_limit": 67108864, "version": 2, "zip_data": {"basename": "shard.00000.mds.gz", "bytes": 159, "hashes": {"xxh128": "ff0bb308ee42b0198ff9659e4522b4e1"}}}], "version": 2})json";

inline constexpr char kMdsBrotliShard[] =
    "1b240100c4d79fab53ae79c9dc1156d90140ff0169796e7024815b99e41216d824bcc7d8f21d623c8245447f22"
    "b22da20f86ddfb3ec8fa6448abbe50083b885f2653780bb6a88fba4cb6a704addeea6f6d8bc36e9c33d56ae821"
    "8c789603168c7c98bbc840185daa5830ca48cb503ecbd3a16fd6ea9d056dd55506c2a7f37673b99c0e0bc64ddd"
    "d321bcfba544f426";
inline constexpr char kMdsBrotliIndex[] = R"json({"shards": [{"column_encodings": ["bytes"], "column_names": ["x"], "column_sizes": [null], "compression": "br:4", "format": "mds", "hashes": ["xxh64"], "raw_data": {"basename": "shard.00000.mds", "bytes": 293, "hashes": {"xxh64": "a92f607d31b50c1b"}}, "samples": 1, "size_limit": 67108864, "version": 2, "zip_data": {"basename": "shard.00000.mds.br", "bytes": 143, "hashes": {"xxh64": "f120dc137ade1e4a"}}}], "version": 2})json";

inline constexpr char kMdsBzip2Shard[] =
    "425a6839314159265359e30c5595000005db886000540475d0000affe7df7a00042000920d129bd53c89ea7919"
    "4d3218106328254f534a69b48068610d3d4640f499d8cc24e38e9df17090876bc65924f71f3873dd3403cd96ba"
    "b151cac9d369e2f667df50100462ab9222a396819067ee144a6d4c2efd1aae7f8768a1518e4d938aa67ce1090a"
    "925c130d88286fce4c5be4a01b5bdee446ce3025889cc775831ec7d3fe2ee48a70a121c618ab2a";
inline constexpr char kMdsBzip2Index[] = R"json({"shards": [{"column_encodings": ["bytes"], "column_names": ["x"], "column_sizes": [null], "compression": "bz2", "format": "mds", "hashes": ["xxh64"], "raw_data": {"basename": "shard.00000.mds", "bytes": 292, "hashes": {"xxh64": "01690e4bf6f3ac16"}}, "samples": 1, "size_limit": 67108864, "version": 2, "zip_data": {"basename": "shard.00000.mds.bz2", "bytes": 174, "hashes": {"xxh64": "c7a57b76fd089a63"}}}], "version": 2})json";

inline constexpr char kMdsSnappyShard[] =
    "a502b001000000bd000000250100007b22636f6c756d6e5f656e636f64696e6773223a205b226279746573225d"
    "2c20220d1f0c6e616d65091b0478221d170873697a09170c6e756c6c0918706d7072657373696f6e223a202273"
    "6e61707079222c2022666f726d61740114086d647301110c68617368093c0c226d64350555014e105f6c696d69"
    "01283436373130383836342c20227665720d5118327d640000007afe01008a0100";
inline constexpr char kMdsSnappyIndex[] = R"json({"shards": [{"column_encodings": ["bytes"], "column_names": ["x"], "column_sizes": [null], "compression": "snappy", "format": "mds", "hashes": ["md5"], "raw_data": {"basename": "shard.00000.mds", "bytes": 293, "hashes": {"md5": "44734d5f6ed792670119abd4f4db00b3"}}, "samples": 1, "size_limit": 67108864, "version": 2, "zip_data": {"basename": "shard.00000.mds.snappy", "bytes": 168, "hashes": {"md5": "8b703c7e9fab36e2d7ac146582e8f28e"}}}], "version": 2})json";

// clang-format on

}  // namespace stoker::testing
