// Files that survive a power cut: each is written under a temporary name, synced and renamed, and then its folder is synced. All errors are
// thrown as io_error.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

extern "C" {
#include "sha256/sha256.h" // llama.cpp's copy, in C
}

std::string sha256_hex(const void * data, size_t bytes);

std::vector<uint8_t> read_whole_file(const std::string & path, uint64_t max_bytes);

bool path_exists(const std::string & path);
/** Follows symbolic links. */
bool is_file(const std::string & path);

struct SavedFile {
    std::string name;
    int64_t bytes;
    std::string sha256;
};

/** A file that is written in pieces under a temporary name. It gets its own name only when it is complete. */
class NewFile {
public:
    /** No file may have this name yet. */
    explicit NewFile(const std::string & path);
    ~NewFile();
    NewFile(const NewFile &) = delete;
    NewFile & operator=(const NewFile &) = delete;

    void append(const void * data, size_t bytes);
    int64_t bytes() const { return bytes_; }
    /** Syncs the file and gives it its name. Never replaces an existing file. */
    SavedFile publish();

private:
    std::string path_, temporary_;
    int fd_;
    int64_t bytes_ = 0;
    sha256_t hash_;
};

/** A folder that is filled under a temporary name. It is removed with its files unless it is published. */
class NewFolder {
public:
    explicit NewFolder(const std::string & path);
    ~NewFolder();
    NewFolder(const NewFolder &) = delete;
    NewFolder & operator=(const NewFolder &) = delete;

    /** The path at which the caller makes the file of this name. */
    std::string path_of(const std::string & name);
    SavedFile write(const std::string & name, const void * data, size_t bytes);
    void publish();

private:
    std::string path_, temporary_;
    std::vector<std::string> names_;
};
