// Files that survive a power cut: written under a temporary name, synced, renamed, and the folder synced.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

std::string sha256_hex(const void * data, size_t bytes);

/** Throws io_error. */
std::vector<uint8_t> read_whole_file(const std::string & path, uint64_t max_bytes);

/** Creates, writes and syncs a file that must not exist. */
void write_synced(const std::string & path, const void * data, size_t bytes);

void sync_folder(const std::string & folder);

/** The folder that holds path. */
std::string parent_of(const std::string & path);

/** A name beside path that start-up cleaning recognises as left over. */
std::string temporary_beside(const std::string & path);

bool path_exists(const std::string & path);

/** Renames without ever replacing what has the name already; then syncs the folder. */
void rename_new(const std::string & from, const std::string & to);
