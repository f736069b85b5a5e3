// What reading asks of the operating system; the system_*.cpp of the system at hand answers.
//
// A function that fails says why in errno, on Windows too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace twofold {

using FileHandle = std::intptr_t; // a descriptor, or a HANDLE of Windows
inline constexpr FileHandle no_file = -1;

// Direct reads move whole units of this size; it suits every file system and drive in use.
inline constexpr std::size_t direct_alignment = 4096;

// Opens a file to be read, past the page cache if `direct`; does not wait for a pipe's writer. no_file when
// it fails: EINVAL where the file system refuses direct reads.
FileHandle open_file(const std::filesystem::path& path, bool direct);
void close_file(FileHandle file);

bool is_regular_file(FileHandle file);

// Whether direct reads of a file that was opened for them make sense, as far as the system tells; the first
// read has the last word.
bool direct_suits(FileHandle file);

// The same file to be read through the page cache, mostly forward: `file` itself from now on, or another
// handle to be closed in its own turn. no_file when it fails.
FileHandle through_cache(FileHandle file);

// Same contract as ::pread, on every system; any number of threads may read one file at once.
std::ptrdiff_t positional_read(FileHandle file, std::byte* dst, std::size_t size, std::int64_t offset);

// Writes a file's pending data and takes its pages out of the page cache. False when it fails.
bool empty_cache(FileHandle file);

// Makes huge pages of whole pages of memory, where the system does that for memory in use. Only advice.
void advise_huge_pages(std::byte* pages, std::size_t size);

} // namespace twofold
