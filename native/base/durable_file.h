// Files that survive a power cut: written under a temporary name, synced, renamed, and the folder synced. Everything here throws
// io_error.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

extern "C" {
#include "sha256/sha256.h" // carried by llama.cpp, in C
}

std::string sha256_hex(const void * data, size_t bytes);

std::vector<uint8_t> read_whole_file(const std::string & path, uint64_t max_bytes);

bool path_exists(const std::string & path);
/** Through links. */
bool is_file(const std::string & path);

struct SavedFile {
    std::string name;
    int64_t bytes;
    std::string sha256;
};

/** A file in the making, written in pieces under a temporary name: it has its own name once it is whole, or never. */
class NewFile {
public:
    /** Nothing may have the name yet. */
    explicit NewFile(const std::string & path);
    ~NewFile();
    NewFile(const NewFile &) = delete;
    NewFile & operator=(const NewFile &) = delete;

    void append(const void * data, size_t bytes);
    int64_t bytes() const { return bytes_; }
    /** Synced and renamed, without ever replacing what has the name already. */
    SavedFile publish();

private:
    std::string path_, temporary_;
    int fd_;
    int64_t bytes_ = 0;
    sha256_t hash_;
};

/** A folder in the making, likewise: gone with its files unless it is published. */
class NewFolder {
public:
    explicit NewFolder(const std::string & path);
    ~NewFolder();
    NewFolder(const NewFolder &) = delete;
    NewFolder & operator=(const NewFolder &) = delete;

    /** Where a file of this name is to be made. */
    std::string path_of(const std::string & name);
    SavedFile write(const std::string & name, const void * data, size_t bytes);
    void publish();

private:
    std::string path_, temporary_;
    std::vector<std::string> names_;
};
