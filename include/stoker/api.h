/// \file
/// Marks what programs may link against.
#pragma once

#if __cplusplus < 202002L
#error "Stoker needs C++20: compile with -std=c++20"
#endif

/// On every public class and function that is not inline: libstoker.so exports these, and nothing
/// else.
#define STOKER_API [[gnu::visibility("default")]]
