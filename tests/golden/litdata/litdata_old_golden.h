/// \file
/// Written by generate.py, with litdata 0.2.20:
/// chunks in hexadecimal, and their index.json.
#pragma once

namespace stoker::testing {

// clang-format off
inline constexpr char kLitdataOldWholeChunk[] =
    "28b52ffd204d7d0100f80300000014000000270000003a0000004d00000008000000686930013102320600a008"
    "20070ab3491c9065833906";
inline constexpr char kLitdataOldWholeIndex[] = R"json({"chunks": [{"chunk_bytes": 57, "chunk_size": 3, "dim": null, "filename": "chunk-0-0.zstd.bin"}], "config": {"chunk_bytes": null, "chunk_size": 100, "compression": "zstd", "data_format": ["int", "str"], "data_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"a\\\", \\\"b\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]", "encryption": null}})json";

inline constexpr char kLitdataOldTreeChunk[] =
    "010000000c0000005a000000300000001600000012000000020000000200000002000000000000000000000001"
    "000000000000000200000000000000030000000000000013000000030000000100000002000000010000000101";
inline constexpr char kLitdataOldTreeIndex[] = R"json({"chunks": [{"chunk_bytes": 78, "chunk_size": 1, "dim": null, "filename": "chunk-0-0.bin"}], "config": {"chunk_bytes": null, "chunk_size": 100, "compression": null, "data_format": ["tensor", "tensor"], "data_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"t\\\", \\\"z\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]", "encryption": null}})json";

inline constexpr char kLitdataOldTokensChunk[] =
    "020000001000000024000000400000000000000001000000020000000300000004000000000000000100000002"
    "00000003000000040000000500000006000000";
inline constexpr char kLitdataOldTokensIndex[] = R"json({"chunks": [{"chunk_bytes": 48, "chunk_size": 2, "dim": 12, "filename": "chunk-0-0.bin"}], "config": {"chunk_bytes": null, "chunk_size": 100, "compression": null, "data_format": ["no_header_tensor:16"], "data_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]", "encryption": null}})json";

inline constexpr char kLitdataOldTokensWholeChunk[] =
    "28b52ffd20404d0100f8020000001000000024000000400001000000030000000405000000060000000300374b"
    "ef64040694";
inline constexpr char kLitdataOldTokensWholeIndex[] = R"json({"chunks": [{"chunk_bytes": 48, "chunk_size": 2, "dim": 12, "filename": "chunk-0-0.zstd.bin"}], "config": {"chunk_bytes": null, "chunk_size": 100, "compression": "zstd", "data_format": ["no_header_tensor:16"], "data_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]", "encryption": null}})json";

// clang-format on

}  // namespace stoker::testing
