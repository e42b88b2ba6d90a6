/// \file
/// Marks what programs may link against.
#pragma once

/// On every public class and function that is not inline: libstoker.so exports these, and nothing
/// else.
#define STOKER_API [[gnu::visibility("default")]]
