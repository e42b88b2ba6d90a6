/// \file
/// Recognises the files of other systems, which `stoker pack` reads through Python packages.
#pragma once

#include <string>

namespace stoker {

/// "parquet", "petastorm", "arrow", "hdf5" or "lmdb" if `path` is a file or a folder of that kind,
/// seen from names and first bytes; empty if it is none of them, or cannot be looked at.
///
///     parquet    a file that begins with "PAR1"; a folder, or a tree of them, of *.parquet
///     petastorm  such a folder with Petastorm's schema in its _common_metadata
///     arrow      a file that begins with "ARROW1", or *.arrow; a folder of *.arrow; one with
///                Hugging Face's dataset_dict.json
///     hdf5       a file with HDF5's signature
///     lmdb       a folder with data.mdb, or a file of that name
std::string import_kind_of(const std::string& path);

}  // namespace stoker
