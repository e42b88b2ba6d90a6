/// \file
/// Written by generate.py, with litdata 0.2.76:
/// chunks in hexadecimal, and their index.json.
#pragma once

namespace stoker::testing {

// clang-format off
inline constexpr char kLitdataTreeChunk[] =
    "03000000140000008e000000080100008201000008000000030000000f0000001c000000300000000000000000"
    "000000686930010200000001000000780100000079010000000200000002000000030000000000010002000300"
    "040005000000001200000002000000020000000200000000000000000100000000000000020000000000000003"
    "0000000000000008000000030000000f0000001c00000030000000010000000000000068693101020000000100"
    "000078010000007901000000020000000200000003000000000001000200030004000500000000120000000200"
    "000002000000020000000000000000010000000000000002000000000000000300000000000000080000000300"
    "00000f0000001c0000003000000002000000000000006869320102000000010000007801000000790100000002"
    "000000020000000300000000000100020003000400050000000012000000020000000200000002000000000000"
    "0000010000000000000002000000000000000300000000000000";
inline constexpr char kLitdataTreeIndex[] = R"json({"chunks": [{"chunk_bytes": 386, "chunk_size": 3, "dim": null, "filename": "chunk-0-0.bin"}], "config": {"chunk_bytes": null, "chunk_size": 10, "compression": null, "compression_batch_size": null, "compression_level": null, "data_format": ["int", "str", "json", "numpy", "tensor"], "data_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"a\\\", \\\"b\\\", \\\"c\\\", \\\"d\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]}]", "encryption": null, "ipc_compression": null, "item_loader": "PyTreeLoader", "types": {"a": "int", "b": "str", "c": {"type": "list", "value": "str"}, "d": "json"}}, "updated_at": "0"})json";

inline constexpr char kLitdataTokensChunk[] =
    "020000001000000024000000400000000000000001000000020000000300000004000000000000000100000002"
    "00000003000000040000000500000006000000";
inline constexpr char kLitdataTokensIndex[] = R"json({"chunks": [{"chunk_bytes": 64, "chunk_size": 2, "dim": 12, "filename": "chunk-0-0.bin"}], "config": {"chunk_bytes": 1000, "chunk_size": null, "compression": null, "compression_batch_size": null, "compression_level": null, "data_format": ["no_header_tensor:16"], "data_spec": "[1, {\"type\": null, \"context\": null, \"children_spec\": []}]", "encryption": null, "ipc_compression": null, "item_loader": "TokensLoader", "types": "tensor"}, "updated_at": "0"})json";

inline constexpr char kLitdataWholeChunk[] =
    "28b52ffd6082006d0300d40303000000140000008e0000000801000082010000080000000f0000001c00000030"
    "00686930010200000001000000787902000300040005120201310232140008a680e218480c34e98382ad06d024"
    "c003042101b4132a184cde9f1b592dec166a2e80bd50d6c70162d93906";
inline constexpr char kLitdataWholeIndex[] = R"json({"chunks": [{"chunk_bytes": 386, "chunk_size": 3, "dim": null, "filename": "chunk-0-0.zstd:4.bin"}], "config": {"chunk_bytes": null, "chunk_size": 10, "compression": "zstd:4", "compression_batch_size": null, "compression_level": null, "data_format": ["int", "str", "json", "numpy", "tensor"], "data_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"a\\\", \\\"b\\\", \\\"c\\\", \\\"d\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]}]", "encryption": null, "ipc_compression": null, "item_loader": "PyTreeLoader", "types": {"a": "int", "b": "str", "c": {"type": "list", "value": "str"}, "d": "json"}}, "updated_at": "0"})json";

inline constexpr char kLitdataBatchChunk[] =
    "4c44465a3031000001000000030000000200000002000000000000007a000000f40000006e0100000000000002"
    "00000058000000000000005f000000f40000000200000001000000b7000000000000005c0000007a00000028b5"
    "2ffd20f4b50200d40208000000030000000f0000001c0000003000686930010200000001000000787902000300"
    "040005120200000131110008a64071fb40712b1c3409f000414800ed840a0693f7e746560bbb859a0b602f94f5"
    "c1200c28b52ffd207a9d0200140308000000030000000f0000001c000000300000000200686932010100000078"
    "7902000300040005120203000000000000000e003409f000414800ed840a0693f7e746560bbb859a0b602fcaea"
    "974560a009";
inline constexpr char kLitdataBatchIndex[] = R"json({"chunks": [{"chunk_bytes": 275, "chunk_size": 3, "dim": null, "filename": "chunk-0-0.bin"}], "config": {"chunk_bytes": null, "chunk_size": 10, "compression": "zstd", "compression_batch_size": 2, "compression_level": "batch", "data_format": ["int", "str", "json", "numpy", "tensor"], "data_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"a\\\", \\\"b\\\", \\\"c\\\", \\\"d\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]}]", "encryption": null, "ipc_compression": null, "item_loader": "PyTreeLoader", "types": {"a": "int", "b": "str", "c": {"type": "list", "value": "str"}, "d": "json"}}, "updated_at": "0"})json";

inline constexpr char kLitdataSampleChunk[] =
    "03000000140000006e000000c50000002101000028b52ffd207a8d0200140308000000030000000f0000001c00"
    "00003000686930010200000001000000787902000300040005120203000000000000000d003409f000414800ed"
    "840a0693f7e746560bbb859a0b602f94f5c1200c28b52ffd207a750200e40208000000030000000f0000001c00"
    "00003000000001006869310102787902000300040005120203000000000000000d003404226c00ee09650c66ec"
    "cf88ac0276013503401c4a6033f333003128b52ffd207a9d0200140308000000030000000f0000001c00000030"
    "00000002006869320101000000787902000300040005120203000000000000000e003409f000414800ed840a06"
    "93f7e746560bbb859a0b602fcaea974560a009";
inline constexpr char kLitdataSampleIndex[] = R"json({"chunks": [{"chunk_bytes": 289, "chunk_size": 3, "dim": null, "filename": "chunk-0-0.bin"}], "config": {"chunk_bytes": null, "chunk_size": 10, "compression": "zstd", "compression_batch_size": null, "compression_level": "sample", "data_format": ["int", "str", "json", "numpy", "tensor"], "data_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \"[\\\"a\\\", \\\"b\\\", \\\"c\\\", \\\"d\\\"]\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": \"builtins.tuple\", \"context\": \"null\", \"children_spec\": [{\"type\": null, \"context\": null, \"children_spec\": []}, {\"type\": null, \"context\": null, \"children_spec\": []}]}]}]", "encryption": null, "ipc_compression": null, "item_loader": "PyTreeLoader", "types": {"a": "int", "b": "str", "c": {"type": "list", "value": "str"}, "d": "json"}}, "updated_at": "0"})json";

// clang-format on

}  // namespace stoker::testing
