#include "base/durable_file.h"

#include <fcntl.h>    // open
#include <sys/stat.h> // lstat
#include <unistd.h>   // fsync

#include <cerrno>
#include <cstdio> // renameat2
#include <cstring>

#include "base/failure.h"
extern "C" {
#include "sha256/sha256.h" // carried by llama.cpp, in C
}

namespace {

[[noreturn]] void fail(const std::string & what, const std::string & path) {
    throw Failure("io_error", what + " " + path + ": " + std::strerror(errno), "Check the path, its rights and the free space.");
}

struct Descriptor {
    int fd;
    ~Descriptor() {
        if (fd >= 0) ::close(fd);
    }
};

} // namespace

std::string sha256_hex(const void * data, size_t bytes) {
    unsigned char digest[SHA256_DIGEST_SIZE];
    sha256_hash(digest, static_cast<const unsigned char *>(data), bytes);
    std::string hex;
    for (unsigned char byte : digest) {
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 15];
    }
    return hex;
}

std::vector<uint8_t> read_whole_file(const std::string & path, uint64_t max_bytes) {
    Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat info {};
    if (file.fd < 0 || ::fstat(file.fd, &info) != 0) fail("cannot open", path);
    if (!S_ISREG(info.st_mode)) throw Failure("io_error", path + " is not a regular file");
    if (static_cast<uint64_t>(info.st_size) > max_bytes)
        throw Failure("io_error", path + " has " + std::to_string(info.st_size) + " bytes, more than " + std::to_string(max_bytes));
    std::vector<uint8_t> content(static_cast<size_t>(info.st_size));
    size_t done = 0;
    while (done < content.size()) {
        const ssize_t got = ::read(file.fd, content.data() + done, content.size() - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("cannot read", path);
        if (got == 0) throw Failure("io_error", path + " ended while it was read");
        done += static_cast<size_t>(got);
    }
    return content;
}

void write_synced(const std::string & path, const void * data, size_t bytes) {
    Descriptor file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    if (file.fd < 0) fail("cannot create", path);
    const char * from = static_cast<const char *>(data);
    size_t done = 0;
    while (done < bytes) {
        const ssize_t put = ::write(file.fd, from + done, bytes - done);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) fail("cannot write", path);
        done += static_cast<size_t>(put);
    }
    if (::fsync(file.fd) != 0) fail("cannot sync", path);
}

void sync_folder(const std::string & folder) {
    Descriptor file{::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    if (file.fd < 0 || ::fsync(file.fd) != 0) fail("cannot sync", folder);
}

std::string parent_of(const std::string & path) {
    const size_t slash = path.find_last_of('/');
    if (slash == std::string::npos) return ".";
    return slash == 0 ? "/" : path.substr(0, slash);
}

std::string temporary_beside(const std::string & path) {
    const std::string name = path.substr(path.find_last_of('/') + 1);
    return parent_of(path) + "/.tmp-" + std::to_string(::getpid()) + "-" + name;
}

bool path_exists(const std::string & path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0;
}

void rename_new(const std::string & from, const std::string & to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
        // Some file systems know no RENAME_NOREPLACE; there the check and the rename are two steps.
        if (errno != EINVAL && errno != ENOSYS) fail("cannot name", to);
        if (path_exists(to)) {
            errno = EEXIST;
            fail("cannot name", to);
        }
        if (::rename(from.c_str(), to.c_str()) != 0) fail("cannot name", to);
    }
    sync_folder(parent_of(to));
}
