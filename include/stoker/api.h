/// \file
/// Marks what programs may link against. What holds for all of it, where a class does not say more:
///
/// - Threads: a function that belongs to no class may be called from any thread. An object without
///   "Thread safety:" is plain data: several threads may read it at once, or one may change it.
/// - Fork: plain data, and what only reads (Dataset, Checkpoint, Batch), works in a forked child.
///   What has threads (Loader, Checkpointer, DeviceFeed) belongs to the process that made it:
///   elsewhere, what needs them returns `unsupported`, and the destructor does nothing.
/// - Signals: no handler is installed, and no signal is blocked. A handler of the program may run
///   on a thread of the library, and must not call it. Interrupted system calls are continued.
/// - The end: destructors wait for the threads of their object, and throw nothing. Nothing must be
///   closed first: a class says what its destructor completes. An object that is never destroyed
///   leaves on disk what a process leaves that is killed.
/// - Exceptions: a function that returns a Status or Result throws nothing. Others may throw
///   std::bad_alloc, and nothing else, unless they are noexcept.
#pragma once

#if __cplusplus < 202002L
#error "Stoker needs C++20: compile with -std=c++20"
#endif

/// On every public class and function that is not inline: libstoker.so exports these, and nothing
/// else.
#define STOKER_API [[gnu::visibility("default")]]
