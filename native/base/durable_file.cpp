#include "base/durable_file.h"

#include <fcntl.h>    // open
#include <sys/stat.h> // lstat, mkdir
#include <unistd.h>   // fsync, rmdir

#include <cerrno>
#include <cstdio> // renameat2
#include <cstring>

#include "base/failure.h"

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

std::string hex_of(const unsigned char (&digest)[SHA256_DIGEST_SIZE]) {
    std::string hex;
    for (unsigned char byte : digest) {
        hex += "0123456789abcdef"[byte >> 4];
        hex += "0123456789abcdef"[byte & 15];
    }
    return hex;
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

std::string name_of(const std::string & path) { return path.substr(path.find_last_of('/') + 1); }

/** A temporary name beside path. The cleaning at start-up recognises such names as left over. */
std::string temporary_beside(const std::string & path) { return parent_of(path) + "/.tmp-" + std::to_string(::getpid()) + "-" + name_of(path); }

void refuse_existing(const std::string & path) {
    if (path_exists(path)) throw Failure("io_error", path + " exists already", "Choose a new name; nothing is overwritten.");
}

/** Renames a file without replacing an existing one, then syncs the folder. */
void rename_new(const std::string & from, const std::string & to) {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) != 0) {
        // Some file systems do not support RENAME_NOREPLACE. There the check and the rename are two steps.
        if (errno != EINVAL && errno != ENOSYS) fail("cannot name", to);
        refuse_existing(to);
        if (::rename(from.c_str(), to.c_str()) != 0) fail("cannot name", to);
    }
    sync_folder(parent_of(to));
}

} // namespace

std::string sha256_hex(const void * data, size_t bytes) {
    unsigned char digest[SHA256_DIGEST_SIZE];
    sha256_hash(digest, static_cast<const unsigned char *>(data), bytes);
    return hex_of(digest);
}

std::vector<uint8_t> read_whole_file(const std::string & path, uint64_t max_bytes) {
    Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
    struct stat info {};
    if (file.fd < 0 || ::fstat(file.fd, &info) != 0) fail("cannot open", path);
    if (!S_ISREG(info.st_mode)) throw Failure("io_error", path + " is not a regular file", "Name a file, not a folder or a device.");
    if (static_cast<uint64_t>(info.st_size) > max_bytes)
        throw Failure("io_error", path + " has " + std::to_string(info.st_size) + " bytes, more than " + std::to_string(max_bytes), "Check that it is the right file.");
    std::vector<uint8_t> content(static_cast<size_t>(info.st_size));
    size_t done = 0;
    while (done < content.size()) {
        const ssize_t got = ::read(file.fd, content.data() + done, content.size() - done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) fail("cannot read", path);
        if (got == 0) throw Failure("io_error", path + " ended while it was read", "Leave files as they are while the worker reads them.");
        done += static_cast<size_t>(got);
    }
    return content;
}

bool path_exists(const std::string & path) {
    struct stat info {};
    return ::lstat(path.c_str(), &info) == 0;
}

bool is_file(const std::string & path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

NewFile::NewFile(const std::string & path) : path_(path), temporary_(temporary_beside(path)) {
    refuse_existing(path_);
    fd_ = ::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd_ < 0) fail("cannot create", temporary_);
    sha256_init(&hash_);
}

NewFile::~NewFile() {
    if (fd_ < 0) return;
    ::close(fd_);
    ::unlink(temporary_.c_str());
}

void NewFile::append(const void * data, size_t bytes) {
    const auto * from = static_cast<const unsigned char *>(data);
    sha256_update(&hash_, from, bytes);
    bytes_ += static_cast<int64_t>(bytes);
    while (bytes > 0) {
        const ssize_t put = ::write(fd_, from, bytes);
        if (put < 0 && errno == EINTR) continue;
        if (put < 0) fail("cannot write", temporary_);
        from += put;
        bytes -= static_cast<size_t>(put);
    }
}

SavedFile NewFile::publish() {
    if (::fsync(fd_) != 0) fail("cannot sync", temporary_);
    rename_new(temporary_, path_);
    ::close(fd_);
    fd_ = -1;
    unsigned char digest[SHA256_DIGEST_SIZE];
    sha256_final(&hash_, digest);
    return {name_of(path_), bytes_, hex_of(digest)};
}

NewFolder::NewFolder(const std::string & path) : path_(path), temporary_(temporary_beside(path)) {
    refuse_existing(path_);
    if (::mkdir(temporary_.c_str(), 0700) != 0) fail("cannot create", temporary_);
}

NewFolder::~NewFolder() {
    if (temporary_.empty()) return;
    for (const std::string & name : names_) ::unlink((temporary_ + "/" + name).c_str());
    ::rmdir(temporary_.c_str());
}

std::string NewFolder::path_of(const std::string & name) {
    names_.push_back(name);
    return temporary_ + "/" + name;
}

SavedFile NewFolder::write(const std::string & name, const void * data, size_t bytes) {
    NewFile file(path_of(name));
    file.append(data, bytes);
    return file.publish();
}

void NewFolder::publish() {
    rename_new(temporary_, path_);
    temporary_.clear();
}
